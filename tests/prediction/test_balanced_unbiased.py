# SPDX-License-Identifier: Apache-2.0
"""Mean and variance of balanced draws have no bias, whatever the noise.

2,000 predictions of a network whose moments are known exactly. Every tolerance
is four standard errors, of the spread between the predictions.
"""

import itertools

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.prediction import balanced

ROWS = 2000
FAMILIES = list(balanced.families())


def assert_unbiased(estimates, exact, scale):
    """Asserts that estimates [predictions, ...] have the exact mean."""
    wide = estimates.astype(np.float64)
    error = wide.std(axis=0, ddof=1) / np.sqrt(len(wide))
    # A float32 output has a relative rounding of 2^-24, some of them a few;
    # a mean over balanced blocks may have no other error.
    distance = np.abs(wide.mean(axis=0) - exact)
    np.testing.assert_array_less(distance, 4 * error + 2e-6 * scale)


@pytest.mark.parametrize(
    "num_samples",
    [
        pytest.param(32, marks=pytest.mark.slow),
        50,
        pytest.param(64, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("case", FAMILIES, ids=[case[0] for case in FAMILIES])
def test_every_family(case, num_samples):
    _, build, (mean, variance) = case
    p = balanced.many(build(), balanced.X, num_samples, ROWS, seed=num_samples)
    assert p.stats.draws == "balanced"
    assert_unbiased(p.mean, mean, 1.0)
    assert_unbiased(p.variance, variance, variance)
    # The variance of the mean too: that of the predictions, whose relative
    # standard error is sqrt(2 / ROWS) for normal means, 0.032.
    of_means = p.mean.astype(np.float64).var(axis=0, ddof=1)
    estimated = p.mean_variance.astype(np.float64)
    error = estimated.std(axis=0, ddof=1) / np.sqrt(ROWS)
    np.testing.assert_array_less(
        np.abs(estimated.mean(axis=0) - of_means),
        4 * (error + np.sqrt(2 / ROWS) * of_means),
    )


def seven_units(outputs, activation):
    rng = np.random.default_rng(3)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


def enumerated(model, x):
    """Probabilities [128] and outputs [128, outputs] of all masks."""
    w1, b1, w2, b2 = (w.astype(np.float64) for w in model.get_weights())
    chances, values = [], []
    for bits in itertools.product((0, 1), repeat=7):
        first, second = np.array(bits[:3]), np.array(bits[3:])
        hidden = np.tanh((x * first / 0.8) @ w1 + b1)
        values.append((hidden * second / 0.5) @ w2 + b2)
        chances.append(np.prod(np.where(first, 0.8, 0.2)) * 0.5 ** len(second))
    activation = model.layers[-1].activation
    return np.array(chances), np.asarray(activation(np.stack(values)))


@pytest.mark.parametrize("num_samples", [16, 31, 32, 50])
@pytest.mark.parametrize("activation", [None, "softmax"])
def test_two_sites_against_all_masks(activation, num_samples):
    x = np.array([0.6, -1.2, 0.8], np.float32)
    model = seven_units(3, activation)
    chances, values = enumerated(model, x)
    mean = chances @ values
    variance = chances @ (values - mean) ** 2
    p = balanced.many(model, x, num_samples, ROWS, seed=7)
    scale = np.abs(values).max()
    assert_unbiased(p.mean, mean, scale)
    if num_samples >= 32:
        assert_unbiased(p.variance, variance, scale**2)
    else:
        # One block says nothing of the variance between blocks: the estimate
        # is at most 16 / 15 of the variance, and not below it.
        ratio = p.variance.mean(axis=0, dtype=np.float64) / variance
        error = p.variance.std(axis=0) / np.sqrt(ROWS) / variance
        np.testing.assert_array_less(ratio, 16 / 15 + 4 * error)
        np.testing.assert_array_less(1 - 4 * error, ratio)
    if activation == "softmax":
        # Exactly the mean variance of a label, of all samples.
        noise = chances @ (values * (1 - values))
        assert_unbiased(p.aleatoric, noise, 1.0)


def test_rao_blackwell():
    x = np.array([0.6, -1.2, 0.8], np.float32)
    model = seven_units(2, None)
    chances, values = enumerated(model, x)
    mean = chances @ values
    variance = chances @ (values - mean) ** 2
    for num_samples in (32, 50):
        p = balanced.many(
            model, x, num_samples, ROWS, seed=3, method=kbd.RaoBlackwell
        )
        assert p.stats.draws == "balanced"
        scale = np.abs(values).max()
        assert_unbiased(p.mean, mean, scale)
        assert_unbiased(p.variance, variance, scale**2)
        of_means = p.mean.astype(np.float64).var(axis=0, ddof=1)
        estimated = p.mean_variance.astype(np.float64)
        error = estimated.std(axis=0) / np.sqrt(ROWS)
        np.testing.assert_array_less(
            np.abs(estimated.mean(axis=0) - of_means),
            4 * (error + np.sqrt(2 / ROWS) * of_means),
        )


def test_ensemble():
    x = np.array([0.6, -1.2, 0.8], np.float32)
    model = seven_units(2, None)
    other = seven_units(2, None)
    other.set_weights([-0.5 * w for w in model.get_weights()])
    both = [enumerated(each, x) for each in (model, other)]
    means = [chances @ values for chances, values in both]
    mean = np.mean(means, axis=0)
    variance = np.mean(
        [chances @ (values - mean) ** 2 for chances, values in both], axis=0
    )
    p = balanced.many([model, other], x, 50, ROWS, seed=3)
    assert_unbiased(p.mean, mean, 4.0)
    assert_unbiased(p.variance, variance, 16.0)
