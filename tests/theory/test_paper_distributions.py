# SPDX-License-Identifier: Apache-2.0
"""Distributions of inputs and outputs (appendices A, D, E and F)."""

import itertools

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from keras_bayesdrop.theory import nwgm
from tests.theory.orders import GAIN
from tests.theory.orders import C
from tests.theory.orders import assert_order
from tests.theory.orders import sigma
from tests.theory.orders import slope

MEAN, STDDEV = 0.4, 0.9


def _integral(function, low, high):
    return scipy.integrate.quad(function, low, high, limit=200)[0]


@pytest.mark.parametrize("a", [0.5, 2.0])
def test_eq_190_and_before_a_uniform_input(a):
    """Its standard deviation is a / sqrt(3), in print a / 3."""
    variance = _integral(lambda s: s**2 / (2 * a), -a, a)
    np.testing.assert_allclose(np.sqrt(variance), a / np.sqrt(3), rtol=1e-12)
    mean = _integral(lambda s: max(GAIN * s, 0.0) / (2 * a), -a, a)
    np.testing.assert_allclose(mean, GAIN * a / 4, rtol=1e-7)
    # So the gap is 0.433 standard deviations; a normal input has 0.399.
    np.testing.assert_allclose(
        mean, GAIN * np.sqrt(3 * variance) / 4, rtol=1e-7
    )


@pytest.mark.parametrize("shift", [-0.8, 0.8])
def test_eq_191_to_194_gap_of_a_rectified_unit(shift):
    rng = np.random.default_rng(0)
    inputs = 2 * rng.normal(size=9) + shift
    for chances in (rng.dirichlet(np.ones(9)), np.full(9, 1 / 9)):
        center = chances @ inputs
        assert np.sign(center) == np.sign(shift)
        rectified = GAIN * np.maximum(inputs, 0)
        exact = abs(GAIN * max(center, 0) - chances @ rectified)
        side = inputs > 0 if center <= 0 else inputs <= 0
        assert side.any()
        mean_size = GAIN * (chances * np.abs(inputs))[side].sum()
        np.testing.assert_allclose(mean_size, exact, rtol=1e-12)


def test_eq_220_mean_of_the_derivative_to_first_order():
    chances, inputs = np.array([0.5, 0.2, 0.3]), np.array([-0.6, 0.3, 0.8])
    assert abs(chances @ inputs) < 1e-15
    assert_order(
        lambda size: chances @ slope(0.3 + size * inputs) - slope(0.3), 2
    )


def test_eq_221_and_222_nwgm_of_the_derivative():
    chances, inputs = np.array([0.5, 0.2, 0.3]), np.array([-0.6, 0.3, 0.8])
    up, down = np.exp(GAIN * inputs), np.exp(-GAIN * inputs)
    terms = up / (GAIN * C) + 2 / GAIN - 1 + C * down / GAIN
    np.testing.assert_allclose(
        1 / (1 + np.prod(terms**chances)),
        nwgm(slope(inputs), chances),
        rtol=1e-12,
    )
    series = 3 + sum(
        2 * inputs ** (2 * n) / scipy.special.factorial(2 * n)
        for n in range(1, 12)
    )
    np.testing.assert_allclose(
        1 / (1 + np.prod(series**chances)),
        nwgm(slope(inputs, 1.0, 1.0), chances),
        rtol=1e-12,
    )


def _inverse(o):
    return -np.log((1 - o) / (C * o)) / GAIN


def _normal(s):
    return np.exp(-((s - MEAN) ** 2) / (2 * STDDEV**2)) / (
        np.sqrt(2 * np.pi) * STDDEV
    )


@pytest.mark.parametrize("o", [0.1, 0.3, 0.5, 0.9])
def test_eq_225_begins_at_minus_infinity(o):
    """Against the share of evenly spaced quantiles of the input."""
    levels = (np.arange(200_000) + 0.5) / 200_000
    outputs = sigma(scipy.stats.norm.ppf(levels, MEAN, STDDEV))
    share = np.mean(outputs <= o)
    probability = _integral(_normal, -np.inf, _inverse(o))
    np.testing.assert_allclose(probability, share, atol=1e-5)
    printed = _integral(_normal, 0, _inverse(o))
    assert abs(printed - share) > 0.3


def test_eq_226_and_227_density_of_the_output():
    def density(o):
        return _normal(_inverse(o)) / (GAIN * o * (1 - o))

    for o in (0.2, 0.5, 0.8):
        below = scipy.stats.norm.cdf(_inverse(o), MEAN, STDDEV)
        np.testing.assert_allclose(_integral(density, 0, o), below, rtol=1e-7)
        log_odds = np.log((1 - o) / o)
        special = (1 - o) ** (-1 - log_odds / 2) * o ** (-1 + log_odds / 2)
        # The derivative of P(O <= o) for a standard normal input.
        step = 1e-5
        sides = scipy.special.ndtr(scipy.special.logit([o - step, o + step]))
        np.testing.assert_allclose(
            special / np.sqrt(2 * np.pi),
            (sides[1] - sides[0]) / (2 * step),
            rtol=1e-6,
        )


def test_eq_228_to_230_sum_of_random_weights_times_activities():
    """Over all values of three weights and three activities."""
    outputs = [(0.2, 0.3), (0.9, 0.7)]  # with their probabilities
    for weights in ([(-0.5, 0.4), (1.0, 0.6)], [(-0.6, 0.5), (0.6, 0.5)]):
        sums, chances = [], []
        for each in itertools.product(weights, outputs, repeat=3):
            values = np.array([value for value, _ in each]).reshape(3, 2)
            sums.append(np.prod(values, 1).sum())
            chances.append(np.prod([chance for _, chance in each]))
        center = np.dot(chances, sums)
        variance = np.dot(chances, (np.array(sums) - center) ** 2)
        (w, w2), (o, o2) = (
            (sum(p * v for v, p in each), sum(p * v**2 for v, p in each))
            for each in (weights, outputs)
        )
        np.testing.assert_allclose(3 * w * o, center, atol=1e-12)
        right = 3 * (w2 * o2 - w**2 * o**2)
        np.testing.assert_allclose(right, variance, rtol=1e-12)
        if w == 0:
            np.testing.assert_allclose(3 * w2 * o2, variance, rtol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(2.0, 0.7), (1.5, 1.5)])
def test_eq_233_and_234_input_of_a_beta_output(a, b):
    constant = 1 / scipy.special.beta(a, b)
    step = 1e-5
    for s in (-2.0, 0.1, 1.4):
        sides = scipy.stats.beta.cdf(
            sigma(np.array([s - step, s + step])), a, b
        )
        exact = (sides[1] - sides[0]) / (2 * step)
        o = sigma(s)
        density = GAIN * constant * o**a * (1 - o) ** b
        np.testing.assert_allclose(density, exact, rtol=1e-6)
        if a == b:
            odds = C * np.exp(-GAIN * s)
            balanced = GAIN * constant * (odds / (1 + odds) ** 2) ** a
            np.testing.assert_allclose(balanced, exact, rtol=1e-6)


def test_eq_235_and_238_normal_distribution_function():
    def printed(t):
        return np.exp(-(t**2) / 2) / (np.sqrt(2 * np.pi) * STDDEV)

    np.testing.assert_allclose(_integral(_normal, -np.inf, np.inf), 1.0)
    np.testing.assert_allclose(
        _integral(_normal, -np.inf, 0.0),
        scipy.special.ndtr(-MEAN / STDDEV),
        rtol=1e-9,
    )
    # As printed it is not a distribution, and contradicts eq. 238.
    assert _integral(printed, -np.inf, np.inf) > 1.1
    assert _integral(printed, -np.inf, 0.0) > 0.55
