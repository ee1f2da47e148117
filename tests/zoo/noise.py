# SPDX-License-Identifier: Apache-2.0
"""Models with every kind of noise."""

import keras

from keras_bayesdrop import MCAlphaDropout
from keras_bayesdrop import MCDropout
from keras_bayesdrop import MCGaussianDropout
from keras_bayesdrop import MCSpatialDropout1D
from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import numbers

layers = keras.layers


@member(draws=1, linear=True)
def spatial_1d():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.SpatialDropout1D(0.5),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1, linear=True)
def spatial_2d():
    return keras.Sequential(
        [
            keras.Input((2, 2, 3)),
            layers.SpatialDropout2D(0.5),
            linear_dense(1),
        ]
    ), numbers(2, 2, 3)


@member(draws=1, linear=True)
def spatial_2d_channels_first():
    return keras.Sequential(
        [
            keras.Input((3, 2, 2)),
            layers.SpatialDropout2D(0.5, data_format="channels_first"),
            linear_dense(1),
        ]
    ), numbers(3, 2, 2)


@member(draws=1, linear=True)
def spatial_3d():
    return keras.Sequential(
        [
            keras.Input((2, 1, 2, 3)),
            layers.SpatialDropout3D(0.5),
            linear_dense(1),
        ]
    ), numbers(2, 1, 2, 3)


@member(draws=1, linear=True)
def gaussian_dropout():
    return keras.Sequential(
        [keras.Input((4,)), layers.GaussianDropout(0.4), linear_dense(2)]
    ), numbers(4)


@member(draws=1, linear=True)
def gaussian_noise():
    return keras.Sequential(
        [keras.Input((4,)), layers.GaussianNoise(0.7), linear_dense(2)]
    ), numbers(4)


@member(draws=1)
def alpha_dropout():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="selu"),
            layers.AlphaDropout(0.4),
            linear_dense(2),
        ]
    ), numbers(4)


@member(draws=1)
def alpha_dropout_with_shape():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.AlphaDropout(0.4, noise_shape=(None, 1, 4)),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1, linear=True)
def noise_shape():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.Dropout(0.5, noise_shape=(None, 1, None)),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1, linear=True, like_training=False)
def noise_shape_of_batch_one():
    # One mask for the whole batch: tiled rows are no separate draws.
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.5, noise_shape=(1, None)),
            linear_dense(2),
        ]
    ), numbers(4)


@member(draws=2, linear=True)
def stochastic_depth():
    inputs = keras.Input((2, 2, 3))
    x = inputs
    for _ in range(2):
        y = layers.Conv2D(3, 1)(x)
        x = x + layers.Dropout(0.3, noise_shape=(None, 1, 1, 1))(y)
    return keras.Model(inputs, linear_dense(1)(x)), numbers(2, 2, 3)


@member(draws=1)
def rate_zero():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.0),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            linear_dense(2),
            layers.GaussianNoise(0.0),
        ]
    ), numbers(4)


@member(draws=5, always_on=True)
def ours():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            MCSpatialDropout1D(0.2),
            layers.Dense(6, activation="tanh"),
            MCDropout(0.3),
            linear_dense(2),
            MCGaussianDropout(0.1),
            MCDropout(0.1, noise="gaussian"),
            MCAlphaDropout(0.1),
        ]
    ), numbers(3, 4)
