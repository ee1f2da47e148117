# SPDX-License-Identifier: Apache-2.0
"""CRPS and energy score."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.metrics import crps
from keras_bayesdrop.metrics import energy_score
from keras_bayesdrop.metrics import root_mean_squared_error
from tests.metrics import cases


def by_pairs(samples, y):
    """The fair estimator by its definition, `[T, rows, outputs]`."""
    total = 0.0
    T = len(samples)
    for row in range(samples.shape[1]):
        x = samples[:, row]
        near = sum(np.linalg.norm(x[t] - y[row]) for t in range(T)) / T
        gaps = sum(
            np.linalg.norm(x[s] - x[t])
            for s in range(T)
            for t in range(T)
            if s != t
        )
        total += near - gaps / (2 * T * (T - 1))
    return total / samples.shape[1]


@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 1000))
def test_fair_estimator_by_pairs(T, rows, seed):
    rng = np.random.default_rng(seed)
    # Few values, so that samples tie.
    samples = rng.integers(0, 4, size=(T, rows, 1)).astype(float)
    y = rng.normal(size=(rows, 1))
    expected = by_pairs(samples, y)
    assert crps(y, samples) == pytest.approx(expected, abs=1e-12)
    assert energy_score(y, samples) == pytest.approx(expected, abs=1e-12)
    p = cases.of_samples(samples)
    assert crps(y, p) == pytest.approx(expected, abs=1e-12)


def test_energy_of_several_outputs_by_pairs():
    p, y = cases.regression((5, 3), samples=7)
    assert energy_score(y, p) == pytest.approx(by_pairs(p.samples, y))
    picture = p.samples.reshape(7, 5, 1, 3)
    assert energy_score(y[:, None], picture) == pytest.approx(
        by_pairs(p.samples, y)
    )
    # The CRPS treats outputs one by one.
    each = [by_pairs(p.samples[..., [d]], y[:, [d]]) for d in range(3)]
    assert crps(y, p) == pytest.approx(np.mean(each))


def test_fair_means_right_on_average_for_two_samples():
    # X standard normal, y = 0.3: the CRPS in closed form, against the mean
    # over N = 40000 pairs of draws. The estimate of one pair is between
    # (|x1| + |x2|) / 2 + 0.3 and its negative, so its standard deviation is
    # below 1, and the mean is off by less than 4 / sqrt(N) = 0.02. The
    # estimator that divides by T**2 would be off by 1.128 / 4 = 0.28.
    samples = np.random.default_rng(0).standard_normal((2, 40_000))
    z, norm = 0.3, scipy.stats.norm
    exact = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - np.pi**-0.5
    y = np.full(40_000, z)
    assert crps(y, samples) == pytest.approx(exact, abs=0.02)


def integral(cdf, y, reach=12.0):
    """The definition of the CRPS."""
    below = quad(lambda z: cdf(z) ** 2, y - reach, y, limit=200)[0]
    above = quad(lambda z: (1 - cdf(z)) ** 2, y, y + reach, limit=200)[0]
    return below + above


def test_without_samples_is_the_integral_of_the_normal():
    for tau, noise in ((4.0, 0.25), (None, 0.0)):
        p, y = cases.regression((5,), tau, keep=False)
        std = np.sqrt(p.variance + noise)
        expected = np.mean(
            [
                integral(scipy.stats.norm(m, s).cdf, t)
                for m, s, t in zip(p.mean, std, y, strict=True)
            ]
        )
        assert crps(y, p) == pytest.approx(expected, rel=1e-6)


def test_without_spread_is_the_absolute_error():
    p = cases.predictive("regression", np.array([1.0, 2.0]))
    assert crps([1.5, 0.0], p) == pytest.approx(1.25)


def test_with_noise_is_near_the_integral_of_the_mixture():
    # The integral is that of the mixture itself, whose pairs s == t count:
    # it is fair plus (E|two noises| - mean gap of pairs) / (2 * T).
    p, y = cases.regression((3,), 4.0, samples=6)
    expected = 0.0
    for x, t in zip(p.samples.T, y, strict=True):

        def cdf(z, x=x):
            return scipy.stats.norm.cdf(z, x, 0.5).mean()

        def size(d):
            return scipy.stats.foldnorm.mean(abs(d) / 0.5**0.5, scale=0.5**0.5)

        same = size(0.0)
        other = np.mean([size(a - b) for a in x for b in x])
        other = (36 * other - 6 * same) / 30
        expected += (integral(cdf, t) - (other - same) / 12) / 3
    assert crps(y, p) == pytest.approx(expected, rel=1e-6)


def test_noise_of_the_energy_score_is_seeded_and_right_on_average():
    # One output: the mean over seeds estimates the CRPS with noise. Standard
    # error from the 200 seeds themselves.
    p, y = cases.regression((6, 1), 0.05, samples=8)
    assert energy_score(y, p, seed=3) == energy_score(y, p, seed=3)
    values = [energy_score(y, p, seed=seed) for seed in range(200)]
    error = np.std(values) / np.sqrt(200)
    assert 0 < error < 0.05
    assert np.mean(values) == pytest.approx(crps(y, p), abs=4 * error)
    # Far from what it is without noise.
    assert abs(crps(y, p.samples) - crps(y, p)) > 8 * error


def test_large_values_keep_their_digits():
    samples = 1e6 + np.array([[0.0], [2.0]])
    assert crps([1e6 + 1], samples) == pytest.approx(0.0, abs=1e-9)
    assert crps([1e6 + 2], samples) == pytest.approx(0.0, abs=1e-9)
    assert root_mean_squared_error([1e6 + 1], samples.mean(axis=0)) == 0


@pytest.mark.parametrize("score", [crps, energy_score])
def test_bad_input(score):
    with pytest.raises(BayesdropError, match=r"T of at least 2.*\(1, 3\)"):
        score(np.ones(3), np.ones((1, 3)))
    with pytest.raises(BayesdropError, match=r"`y`.*\(3,\).*\(2,\)"):
        score(np.ones(2), np.ones((2, 3)))
    with pytest.raises(NonFiniteError, match="`prediction`"):
        score([0.0], [[0.0], [np.nan]])
    with pytest.raises(NonFiniteError, match="`y`"):
        score([np.nan], [[0.0], [1.0]])
    with pytest.raises(BayesdropError, match="at least one example"):
        score([], np.ones((2, 0)))
    p = cases.predictive("binary", np.ones(2))
    with pytest.raises(BayesdropError, match="Received: task='binary'"):
        score([1, 1], p)


def test_bad_seed():
    with pytest.raises(BayesdropError, match="`seed`"):
        energy_score([0.0], [[0.0], [1.0]], seed=-1)
