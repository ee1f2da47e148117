# SPDX-License-Identifier: Apache-2.0
"""Small models and data on disk, for the tests of the command line."""

import keras
import numpy as np

ROWS = 7
FEATURES = 4


def data(rows=ROWS, features=FEATURES):
    random = np.random.default_rng(1)
    return random.normal(size=(rows, features)).astype("float32")


def regression(loss="mse"):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((FEATURES,), name="features"),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ],
        name="small",
    )
    model.compile("sgd", loss)
    return model


def classifier(activation="softmax", units=3):
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(units, activation=activation),
        ]
    )


def two_by_two():
    """Two inputs, two outputs: a number and a class."""
    keras.utils.set_random_seed(3)
    left = keras.Input((FEATURES,), name="left")
    right = keras.Input((3,), name="right")
    both = keras.layers.Concatenate()([left, right])
    hidden = keras.layers.Dropout(0.5)(
        keras.layers.Dense(8, activation="relu")(both)
    )
    return keras.Model(
        [left, right],
        [
            keras.layers.Dense(1, name="price")(hidden),
            keras.layers.Dense(3, activation="softmax", name="kind")(hidden),
        ],
    )


def save(model, path):
    model.save(path)
    return str(path)
