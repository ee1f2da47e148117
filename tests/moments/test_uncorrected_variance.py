# SPDX-License-Identifier: Apache-2.0
"""Outputs whose variance is not corrected for shared noise."""

import keras
import numpy as np
import pytest

from tests.moments.deep_networks import FEATURES
from tests.moments.deep_networks import mean_and_variance
from tests.moments.deep_networks import random_inputs
from tests.moments.deep_networks import sequential
from tests.moments.deep_networks import uncorrected_variance

layers = keras.layers


@pytest.fixture(autouse=True)
def _float64():
    keras.utils.set_random_seed(4)
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")


def _same(name):
    """Networks without shared noise, or without known derivatives."""
    x = keras.Input((FEATURES,))
    if name == "one layer":
        return sequential(layers.Dropout(0.2), layers.Dense(3))
    if name == "one draw for all units":
        noise = layers.Dropout(0.4, noise_shape=(None, 1))
        return sequential(
            layers.Dropout(0.2), layers.Dense(4), noise, layers.Dense(2)
        )
    if name == "a sum at the end":
        hidden = layers.Dense(4)(layers.Dropout(0.2)(x))
        ends = [layers.Dense(2)(hidden), layers.Dense(2)(hidden)]
        return keras.Model(x, layers.Add()(ends))
    if name == "an unknown rule":
        return sequential(
            layers.Dropout(0.2),
            layers.Dense(4),
            layers.Softmax(),
            layers.Dense(2),
        )
    assert name == "no vectors"
    return keras.Sequential(
        [
            keras.Input((4, FEATURES)),
            layers.Dropout(0.2),
            layers.Dense(4),
            layers.Dense(2),
        ]
    )


@pytest.mark.parametrize(
    "name",
    [
        "one layer",
        "one draw for all units",
        "a sum at the end",
        "an unknown rule",
        "no vectors",
    ],
)
def test_nothing_changes(name):
    model = _same(name)
    x = np.random.default_rng(0).normal(size=(3, *model.input_shape[1:]))
    np.testing.assert_array_equal(
        mean_and_variance(model, x)[1], uncorrected_variance(model, x)
    )


def test_outputs_that_do_not_vary():
    model = sequential(
        layers.Dropout(0.2),
        layers.Dense(4),
        layers.Dense(2, kernel_initializer="zeros"),
    )
    _, variance = mean_and_variance(model, random_inputs())
    np.testing.assert_array_equal(variance, np.zeros((7, 2)))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_one_of_many_outputs_does_not_vary(scale):
    keras.config.set_dtype_policy("float32")
    model = sequential(
        layers.Dropout(0.2), layers.Dense(4), layers.Dense(6, use_bias=False)
    )
    kernel = scale * model.layers[-1].kernel.numpy()
    kernel[:, 2] = 0.0
    model.layers[-1].kernel.assign(kernel)
    x = random_inputs(dtype="float32")
    _, variance = mean_and_variance(model, x)
    assert np.all(variance[:, 2] == 0)
    others = np.delete(variance, 2, 1) / np.delete(
        uncorrected_variance(model, x), 2, 1
    )
    # One factor for all outputs, which is not 1.
    np.testing.assert_allclose(others, others[:, :1] * np.ones(5), rtol=1e-5)
    assert np.abs(others - 1).min() > 1e-3
