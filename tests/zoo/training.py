# SPDX-License-Identifier: Apache-2.0
"""Models with parts that must not train."""

import keras

from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import move_statistics
from tests.zoo.members import numbers

layers = keras.layers
ops = keras.ops


@member(draws=1, like_training=False)
def batch_norm():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.BatchNormalization(),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            layers.BatchNormalization(),
            linear_dense(2),
        ]
    )
    move_statistics(model)
    return model, numbers(4)


@member(draws=1, like_training=False)
def batch_norm_told_to_train():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(inputs)
    x = layers.BatchNormalization()(x, training=True)
    model = keras.Model(inputs, linear_dense(2)(x))
    move_statistics(model)
    return model, numbers(4)


@member(draws=1, linear=True)
def dropout_told_to_train():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(inputs, training=True)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


class Penalty(layers.Layer):
    def call(self, x):
        self.add_loss(1e-3 * ops.mean(ops.square(x)))
        return x


@member(draws=1)
def losses():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, "tanh", activity_regularizer="l2"),
            Penalty(),
            layers.Dropout(0.5),
            layers.Dense(2, activity_regularizer="l1", kernel_regularizer="l2"),
            layers.ActivityRegularization(0.1),
        ]
    ), numbers(4)
