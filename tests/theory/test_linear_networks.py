# SPDX-License-Identifier: Apache-2.0
"""Linear networks: moments against brute-force enumeration of all masks."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.moments.enumeration import Masked
from tests.moments.enumeration import enumerate_masks
from tests.moments.passes import moments_of

layers = keras.layers


def _chain(dtype):
    return keras.Sequential(
        [
            keras.Input((3,), dtype=dtype),
            Masked(0.3, dtype=dtype),
            layers.Dense(4, dtype=dtype),
            Masked(0.5, dtype=dtype),
            layers.Dense(3, dtype=dtype),
            Masked(0.2, dtype=dtype),
            layers.Dense(2, dtype=dtype),
        ]
    )


def _with_skips(dtype):
    x = keras.Input((3,), dtype=dtype)
    dropped = Masked(0.3, dtype=dtype)(x)
    hidden = layers.Dense(3, dtype=dtype)(dropped)
    noisy = Masked(0.5, dtype=dtype)(hidden)
    again = layers.Dense(3, dtype=dtype)(noisy)
    summed = layers.Add(dtype=dtype)([again, x, dropped])
    joined = layers.Concatenate(dtype=dtype)([summed, noisy])
    less = layers.Subtract(dtype=dtype)(
        [layers.Dense(2, dtype=dtype)(joined), layers.Dense(2, dtype=dtype)(x)]
    )
    mean = layers.Average(dtype=dtype)(
        [less, layers.Dense(2, dtype=dtype)(Masked(0.25, dtype=dtype)(hidden))]
    )
    return keras.Model(x, mean)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)]
)
@pytest.mark.parametrize("build", [_chain, _with_skips])
def test_eq_15_to_26_against_all_masks(build, dtype, tolerance):
    keras.utils.set_random_seed(3)
    model = build(dtype)
    x = np.random.default_rng(1).normal(size=(2, 3)).astype(dtype)
    mean, covariance = enumerate_masks(model, x)
    own_mean, own_variance, own_covariance = moments_of(model, x, full=True)
    scale = np.abs(covariance).max()
    np.testing.assert_allclose(own_mean, mean, atol=tolerance * 10)
    np.testing.assert_allclose(
        own_covariance, covariance, atol=tolerance * scale
    )
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(own_variance, variance, atol=tolerance * scale)


def test_a_single_layer_is_exact_without_covariances():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((3,)), Masked(0.3), layers.Dense(2)])
    x = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    mean, covariance = enumerate_masks(model, x)
    prediction = kbd.predict_with_uncertainty(
        model, x, method="moments", verbose=0
    )
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-5, atol=1e-6)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-5)


def test_a_later_mask_is_inside_the_upper_layer_eq_25():
    """The printed formula treats the masks of both layers as independent."""
    keras.utils.set_random_seed(5)
    x = keras.Input((2,))
    below = Masked(0.4)(layers.Dense(2, use_bias=False)(x))
    above = Masked(0.3)(layers.Dense(2, use_bias=False)(below))
    model = keras.Model(x, layers.Concatenate()([below, above]))
    data = np.array([[1.0, -0.5]], np.float32)
    _, covariance = enumerate_masks(model, data)
    _, _, own_covariance = moments_of(model, data, full=True)
    np.testing.assert_allclose(own_covariance, covariance, atol=1e-6)
    assert np.abs(covariance[0, :2, 2:]).max() > 0.01
