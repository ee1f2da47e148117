# SPDX-License-Identifier: Apache-2.0
"""Networks whose units share noise, for the correction of variances."""

import keras
import numpy as np
import pytest

from keras_bayesdrop.moments import variance_correction
from tests.moments.passes import moments_of

layers = keras.layers

FEATURES = 70  # too many to run case by case


def mean_and_variance(model, x, full=False, chosen=None):
    return moments_of(model, x, full, chosen)[:2]


def random_inputs(rows=7, features=FEATURES, dtype="float64"):
    return np.random.default_rng(0).normal(size=(rows, features)).astype(dtype)


def sequential(*stack):
    return keras.Sequential([keras.Input((FEATURES,)), *stack])


def with_skip():
    x = keras.Input((FEATURES,))
    hidden = layers.Dense(4)(layers.Dropout(0.2)(x))
    inner = layers.Dense(4)(layers.Dropout(0.4)(hidden))
    return keras.Model(x, layers.Dense(1)(layers.Add()([hidden, inner])))


def uncorrected_variance(model, x):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variance_correction, "CHEAP_MULTIPLY_ADDS", 0)
        patch.setattr(variance_correction, "_MAX_SHARE", 0.0)
        return mean_and_variance(model, x)[1]


def classifier(*end):
    return sequential(
        layers.Dropout(0.1),
        layers.Dense(16, "relu"),
        layers.Dropout(0.3),
        layers.Dense(16, "relu"),
        layers.Dropout(0.3),
        *end,
    )
