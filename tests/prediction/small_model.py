# SPDX-License-Identifier: Apache-2.0
"""A small model, inputs for it, and predictions with a fixed seed."""

import keras
import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.cache import programs
from tests.helpers import flat

SEED = 5


def predict(model, x, num_samples=20, **kwargs):
    settings = {"seed": SEED, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, **flat(**settings)
    )


def small_model(outputs=1, activation=None, rate=0.5, **dense):
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dropout(rate, name="drop"),
            keras.layers.Dense(outputs, activation=activation, **dense),
        ]
    )


def inputs_of(rows=6, features=4):
    rng = np.random.default_rng(2)
    return rng.normal(size=(rows, features)).astype(np.float32)


def count_traces(model):
    """Programs traced for a model so far."""
    return programs.made(model)
