# SPDX-License-Identifier: Apache-2.0
"""Models with operations in the graph."""

import keras
import numpy as np

from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import numbers

layers = keras.layers
ops = keras.ops


@member(draws=1)
def operations():
    inputs = keras.Input((4,))
    x = ops.tanh(inputs * 2.0 + np.arange(4, dtype="float32"))
    x = layers.Dropout(0.5)(x)
    x = ops.concatenate([x, ops.square(x), ops.ones_like(inputs)], axis=-1)
    x = ops.stack([x[:, :6], x[:, 6:]], axis=1)
    return keras.Model(inputs, ops.sum(x, axis=2)), numbers(4)


@member(draws=1)
def lambdas():
    inputs = keras.Input((4,))
    x = layers.Lambda(lambda t: t * 2.0)(inputs)
    x = layers.Dropout(0.5)(x)
    x = layers.Lambda(lambda t: ops.sum(t, axis=-1, keepdims=True))(x)
    return keras.Model(inputs, x), numbers(4)


@member(draws=1, linear=True)
def time_folded_into_batch():
    """A graph that moves time into the batch axis, and back."""
    inputs = keras.Input((3, 4))
    x = ops.reshape(inputs, (-1, 4))
    x = layers.Dropout(0.5)(x)
    x = ops.reshape(x, (-1, 3, 4))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=2, linear=True)
def time_folded_after_noise():
    inputs = keras.Input((3, 4))
    x = layers.Dropout(0.2)(inputs)
    x = ops.reshape(x, (-1, 4))
    x = layers.Dropout(0.5)(x)
    x = ops.reshape(x, (-1, 3, 4))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


class FoldsTime(layers.Layer):
    """Runs a Dropout on [batch * time, features]."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)

    def call(self, x):
        flat = self.drop(ops.reshape(x, (-1, x.shape[-1])))
        return ops.reshape(flat, (-1, *x.shape[1:]))


@member(draws=1, linear=True)
def time_folded_inside_a_layer():
    return keras.Sequential(
        [keras.Input((3, 4)), FoldsTime(), linear_dense(2)]
    ), numbers(3, 4)


@member(draws=1, linear=True)
def dense_on_rank_three():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.Dense(5, activation="relu"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), numbers(3, 4)


class Positions(layers.Layer):
    """Returns its weights, which have no batch axis: [1, time, features]."""

    def build(self, shape):
        self.table = self.add_weight(
            shape=(1, *shape[1:]), initializer="random_normal", name="table"
        )

    def call(self, x):
        return ops.convert_to_tensor(self.table)

    def compute_output_shape(self, shape):
        return (1, *shape[1:])


@member(draws=1)
def positions():
    inputs = keras.Input((3, 4))
    x = layers.Dropout(0.5)(inputs) + Positions()(inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=1, like_training=False)
def noise_on_positions():
    inputs = keras.Input((3, 4))
    x = inputs + layers.Dropout(0.5)(Positions()(inputs))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)
