# SPDX-License-Identifier: Apache-2.0
"""Models of every shape of graph."""

import keras

from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import numbers

layers = keras.layers


@member(draws=1, linear=True)
def sequential():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="relu"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), numbers(4)


@member(draws=1, linear=True)
def sequential_built_by_call():
    model = keras.Sequential(
        [
            layers.Dense(6, activation="relu"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    )
    x = numbers(4)
    model(x)
    return model, x


@member(draws=2)
def functional():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.2)(inputs)
    x = layers.Dense(8, activation="tanh")(x)
    x = layers.Dropout(0.5)(x)
    return keras.Model(inputs, linear_dense(3)(x)), numbers(4)


@member(draws=3)
def nested_three_deep():
    def wrap(inner, width):
        inputs = keras.Input((4,))
        x = inner(inputs) if inner is not None else inputs
        x = layers.Dense(width, activation="tanh")(x)
        return keras.Model(inputs, layers.Dropout(0.4)(x))

    innermost = wrap(None, 4)
    middle = wrap(innermost, 4)
    sequence = keras.Sequential(
        [keras.Input((4,)), middle, layers.Dense(5), layers.Dropout(0.3)]
    )
    inputs = keras.Input((4,))
    return keras.Model(inputs, linear_dense(2)(sequence(inputs))), numbers(4)


@member(draws=2)
def two_inputs():
    a, b = keras.Input((3,)), keras.Input((2,))
    x = layers.Concatenate()([layers.Dropout(0.5)(a), layers.Dense(3)(b)])
    x = layers.Dropout(0.3)(layers.Dense(6, activation="tanh")(x))
    return keras.Model([a, b], linear_dense(2)(x)), [
        numbers(3),
        numbers(2, seed=1),
    ]


@member(draws=1)
def dict_inputs():
    a, b = keras.Input((3,), name="zebra"), keras.Input((2,), name="ant")
    x = layers.Concatenate()([layers.Dropout(0.5)(a), layers.Dense(3)(b)])
    model = keras.Model({"zebra": a, "ant": b}, linear_dense(2)(x))
    return model, {"zebra": numbers(3), "ant": numbers(2, seed=1)}


@member(draws=2)
def list_outputs():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(layers.Dense(6, activation="tanh")(inputs))
    first = linear_dense(2)(x)
    second = linear_dense(3)(layers.Dropout(0.5)(x))
    return keras.Model(inputs, [first, second]), numbers(4)


@member(draws=1)
def dict_outputs():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(layers.Dense(6, activation="tanh")(inputs))
    outputs = {"z": linear_dense(2)(x), "a": linear_dense(3)(x)}
    return keras.Model(inputs, outputs), numbers(4)


@member(draws=1)
def outputs_without_noise():
    inputs = keras.Input((4,))
    x = layers.Dense(6, activation="tanh")(inputs)
    y = linear_dense(2)(layers.Dropout(0.5)(x))
    return keras.Model(inputs, [y, x, inputs, y]), numbers(4)


@member(draws=2, linear=True)
def dropout_called_twice():
    inputs = keras.Input((4,))
    dropout = layers.Dropout(0.5)
    x = linear_dense(4)(dropout(inputs))
    return keras.Model(inputs, linear_dense(2)(dropout(x))), numbers(4)


@member(draws=2)
def model_called_twice():
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dropout(0.5)]
    )
    inputs = keras.Input((4,))
    x = inner(layers.Dense(4)(inner(inputs)))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


@member(draws=1)
def skip_connection():
    inputs = keras.Input((4,))
    x = layers.Dense(4, activation="tanh")(inputs)
    y = layers.Dropout(0.5)(x)
    x = layers.Add()([x, y, inputs])
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


@member(draws=1)
def functional_subclass():
    class Own(keras.Model):
        def __init__(self):
            inputs = keras.Input((4,))
            x = layers.Dense(6, activation="tanh")(inputs)
            x = layers.Dropout(0.5)(x)
            super().__init__(inputs, linear_dense(2)(x))

    return Own(), numbers(4)
