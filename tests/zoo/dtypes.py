# SPDX-License-Identifier: Apache-2.0
"""Models of other shapes and dtypes, and with preprocessing."""

import keras

from tests.zoo.members import ROWS
from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import move_statistics
from tests.zoo.members import numbers
from tests.zoo.members import tokens

layers = keras.layers


@member(draws=1, linear=True)
def fixed_batch_size():
    inputs = keras.Input((4,), batch_size=ROWS)
    x = layers.Dropout(0.5)(inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


@member(draws=2, rtol=1e-12)
def double_precision():
    keras.config.set_dtype_policy("float64")
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            layers.GaussianDropout(0.1),
            layers.Dense(2),
        ]
    ), numbers(4)


@member(draws=2, rtol=2e-3)
def half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.2),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            layers.Dense(2, dtype="float32"),
        ]
    ), numbers(4)


@member(draws=1, rtol=2e-3)
def half_precision_to_the_end():
    keras.config.set_dtype_policy("mixed_float16")
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(3), layers.Dropout(0.5)]
    ), numbers(4)


@member(draws=2, like_training=False)
def conv_net():
    inputs = keras.Input((6, 6, 2))
    x = layers.Rescaling(0.5)(inputs)
    for filters in (3, 4):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.SpatialDropout2D(0.2)(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.5)(x)
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(x))
    move_statistics(model)
    return model, numbers(6, 6, 2)


@member(draws=1)
def preprocessing():
    x = numbers(4)
    normalization = layers.Normalization()
    normalization.adapt(x)
    return keras.Sequential(
        [
            keras.Input((4,)),
            normalization,
            layers.Rescaling(2.0, offset=1.0),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), x


@member(draws=1)
def token_average():
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(9, 4, mask_zero=True),
            layers.SpatialDropout1D(0.4),
            layers.GlobalAveragePooling1D(),
            linear_dense(2),
        ]
    ), tokens(4)


@member(draws=1)
def one_feature_without_its_axis():
    return keras.Sequential(
        [
            keras.Input((1,)),
            linear_dense(6),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), numbers(1)[:, 0]
