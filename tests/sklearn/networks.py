# SPDX-License-Identifier: Apache-2.0
"""Small networks and data for the estimators.

They are functions of a module, so that an estimator can be pickled.
"""

import keras
import numpy as np

QUIET = {"verbose": 0, "epochs": 2, "batch_size": 16}


def regression(X, y, units=8, rate=0.3):
    model = keras.Sequential(
        [
            keras.Input((X.shape[1],)),
            keras.layers.Dense(units, activation="tanh"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(y.shape[1]),
        ]
    )
    model.compile(keras.optimizers.Adam(0.02), "mse")
    return model


def classes(X, y, form="one_hot", activation="softmax"):
    """A classifier whose loss takes labels in one of several forms."""
    loss = {
        "one_hot": "categorical_crossentropy",
        "sparse": keras.losses.SparseCategoricalCrossentropy(),
        "single": "binary_crossentropy",
        "labels": "binary_crossentropy",
    }[form]
    outputs = 1 if form == "single" else y.shape[1]
    activation = "sigmoid" if form == "single" else activation
    model = keras.Sequential(
        [
            keras.Input((X.shape[1],)),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )
    model.compile(keras.optimizers.Adam(0.05), loss)
    return model


def line(rows=40, features=3, outputs=None, seed=0):
    """Inputs, and targets that depend on them linearly."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, features))
    weights = generator.normal(size=(features, outputs or 1))
    y = X @ weights
    return X, (y[:, 0] if outputs is None else y)


def blobs(labels, rows=60, seed=0):
    """One cluster of points for each label."""
    generator = np.random.default_rng(seed)
    numbers = np.arange(rows) % len(labels)
    centres = 4 * np.eye(len(labels), 3)
    X = centres[numbers] + generator.normal(size=(rows, 3))
    return X, np.asarray(labels)[numbers]
