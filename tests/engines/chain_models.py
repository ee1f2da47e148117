# SPDX-License-Identifier: Apache-2.0
"""Models with chains: every kind that the fused engine runs."""

import keras
import numpy as np

from tests import zoo

layers = keras.layers


def sequential(*stack, shape=(6,), dtype=None):
    return keras.Sequential([keras.Input(shape, dtype=dtype), *stack])


def moved(model):
    """Gives a model biases, and statistics, that are not those of a new one."""
    rng = np.random.default_rng(3)
    for layer in model._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            layer.set_weights(
                [rng.uniform(0.5, 2.0, w.shape) for w in layer.get_weights()]
            )
        elif isinstance(layer, layers.Dense) and layer.bias is not None:
            layer.bias.assign(rng.normal(size=layer.bias.shape))
    return model


def conv_head():
    return moved(
        sequential(
            layers.Conv2D(3, 3, activation="relu", name="conv"),
            layers.MaxPooling2D(name="pool"),
            layers.Flatten(name="flat"),
            layers.Dropout(0.3, name="drop"),
            layers.Dense(9, "relu", name="hidden"),
            layers.Dropout(0.5, name="drop2"),
            layers.Dense(3, "softmax", name="head"),
            shape=(6, 6, 2),
        )
    ), zoo.numbers(6, 6, 2)


def flatten_after_noise():
    return moved(
        sequential(
            layers.Conv2D(3, 3, name="conv"),
            layers.Dropout(0.3, name="drop"),
            layers.Flatten(name="flat"),
            layers.Dense(4, "tanh", name="head"),
            shape=(4, 5, 2),
        )
    ), zoo.numbers(4, 5, 2)


def flatten_inside():
    """Noise before a convolution: the chain begins with samples apart."""
    return moved(
        sequential(
            layers.SpatialDropout2D(0.3, name="noise"),
            layers.Conv2D(3, 3, name="conv"),
            layers.Flatten(name="flat"),
            layers.Dropout(0.3, name="drop"),
            layers.Dense(4, "tanh", name="head"),
            shape=(4, 5, 2),
        )
    ), zoo.numbers(4, 5, 2)


def activation_layers():
    return moved(
        sequential(
            layers.Dropout(0.2, name="a"),
            layers.Dense(9, name="b"),
            layers.Activation("gelu", name="c"),
            layers.Dense(8, name="d"),
            layers.LeakyReLU(negative_slope=0.2, name="e"),
            layers.GaussianDropout(0.2, name="f"),
            layers.Dense(7, name="g"),
            layers.ELU(name="h"),
            layers.Dense(4, name="i"),
            layers.Softmax(name="j"),
        )
    ), zoo.numbers(6)


def normalizations():
    return moved(
        sequential(
            layers.Dropout(0.2, name="a"),
            layers.BatchNormalization(name="b"),
            layers.Dense(9, name="c"),
            layers.BatchNormalization(name="d"),
            layers.ReLU(name="e"),
            layers.BatchNormalization(name="f"),
            layers.Dense(8, use_bias=False, name="g"),
            layers.BatchNormalization(scale=False, name="h"),
            layers.Dropout(0.5, name="i"),
            layers.Dense(2, name="j"),
        )
    ), zoo.numbers(6)


def normalization_before_noise():
    return moved(
        sequential(
            layers.Dropout(0.2, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.BatchNormalization(name="c"),
            layers.Dropout(0.5, name="d"),
            layers.Dense(2, name="e"),
        )
    ), zoo.numbers(6)


def sequences():
    return moved(
        sequential(
            layers.SpatialDropout1D(0.3, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.Dropout(0.4, name="c"),
            layers.Dense(8, name="d"),
            layers.GaussianDropout(0.3, name="e"),
            layers.Dense(2, name="f"),
            shape=(7, 6),
        )
    ), zoo.numbers(7, 6)


def open_sequences():
    return moved(
        sequential(
            layers.Dropout(0.4, name="a"),
            layers.Dense(8, "tanh", name="b"),
            layers.SpatialDropout1D(0.3, name="c"),
            layers.Dense(2, name="d"),
            shape=(None, 6),
        )
    ), zoo.numbers(7, 6)


def images():
    return moved(
        sequential(
            layers.Dropout(0.4, name="a"),
            layers.Dense(8, "tanh", name="b"),
            layers.SpatialDropout2D(0.3, name="c"),
            layers.Dense(2, name="d"),
            shape=(3, 2, 6),
        )
    ), zoo.numbers(3, 2, 6)


def nested():
    inner = sequential(
        layers.Dropout(0.3, name="a"), layers.Dense(5, "relu", name="b")
    )
    inner.name = "inner"
    inputs = keras.Input((6,))
    x = layers.Dropout(0.3, name="c")(inner(inputs))
    return moved(keras.Model(inputs, layers.Dense(2, name="d")(x))), (
        zoo.numbers(6)
    )


def branches():
    """One value is used by two chains, by a sum, and as an output."""
    inputs = keras.Input((6,))
    x = layers.Dense(6, "tanh", name="a")(inputs)
    left = layers.Dropout(0.3, name="b")(x)
    left = layers.Dense(6, "relu", name="c")(left)
    right = layers.GaussianDropout(0.3, name="d")(x)
    right = layers.Dense(6, "relu", name="e")(right)
    y = layers.Add(name="f")([left, right, x])
    z = layers.Dense(2, name="h")(layers.Dropout(0.5, name="g")(y))
    w = layers.Dense(3, name="j")(layers.Dropout(0.5, name="i")(y))
    return moved(keras.Model(inputs, [z, w, y, x])), zoo.numbers(6)


def input_that_is_folded_already():
    """A sum repeats the input for every sample before the chain takes it."""
    inputs = keras.Input((6,))
    x = layers.Dense(6, "tanh", name="a")(inputs)
    y = layers.Add(name="c")([layers.Dropout(0.3, name="b")(x), x])
    for name in "defg":
        y = layers.LayerNormalization(name=name)(y)
    z = layers.Dropout(0.5, name="h")(x)
    z = layers.Dense(6, "relu", name="i")(z)
    return moved(keras.Model(inputs, layers.Add(name="j")([y, z]))), (
        zoo.numbers(6)
    )


def noise_used_twice():
    inputs = keras.Input((6,))
    x = layers.Dropout(0.3, name="a")(inputs)
    y = layers.Dense(6, "relu", name="b")(x)
    z = layers.Dense(6, name="d")(layers.Dropout(0.5, name="c")(y))
    return moved(keras.Model(inputs, layers.Add(name="e")([x, z]))), (
        zoo.numbers(6)
    )


def shared_layers():
    inputs = keras.Input((6,))
    drop = layers.Dropout(0.3, name="drop")
    dense = layers.Dense(6, "tanh", name="dense")
    x = dense(drop(dense(drop(inputs))))
    return moved(keras.Model(inputs, x)), zoo.numbers(6)


def chain_in_the_middle():
    inputs = keras.Input((6,))
    x = layers.GaussianNoise(0.5, name="noise")(inputs)
    x = layers.LayerNormalization(name="norm")(x)
    x = layers.Dropout(0.1, name="a")(x)
    x = layers.Dense(8, "relu", name="b")(x)
    x = layers.Dropout(0.5, name="c")(x)
    x = layers.Dense(4, name="d")(x)
    x = layers.LayerNormalization(name="norm2")(x)
    return moved(keras.Model(inputs, x)), zoo.numbers(6)


def sequences_in_the_middle():
    inputs = keras.Input((None, 6))
    x = layers.SpatialDropout1D(0.5, name="noise")(inputs)
    x = layers.LayerNormalization(name="norm")(x)
    x = layers.Dropout(0.1, name="a")(x)
    x = layers.Dense(8, "relu", name="b")(x)
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    return moved(keras.Model(inputs, x)), zoo.numbers(7, 6)


def with_adapter():
    model = moved(
        sequential(
            layers.Dropout(0.3, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.Dropout(0.5, name="c"),
            layers.Dense(3, name="d"),
        )
    )
    model.get_layer("b").enable_lora(2)
    model.get_layer("b").lora_kernel_b.assign(np.ones((2, 9)))
    return model, zoo.numbers(6)


def in_float64():
    keras.config.set_dtype_policy("float64")
    model = moved(
        sequential(
            layers.Dropout(0.3, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.BatchNormalization(name="c"),
            layers.Dense(8, "tanh", name="d"),
            layers.GaussianDropout(0.5, name="e"),
            layers.Dense(3, name="f"),
            dtype="float64",
        )
    )
    return model, zoo.numbers(6).astype("float64")
