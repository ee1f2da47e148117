# SPDX-License-Identifier: Apache-2.0
"""Quantiles and intervals."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Regression
from tests.predictive.cases import SHAPES
from tests.predictive.cases import make
from tests.predictive.cases import normal
from tests.predictive.cases import simplex


@pytest.mark.parametrize("shape", SHAPES)
def test_quantile_is_exact_with_samples(shape):
    samples = normal(shape)
    p = make("regression", samples)
    for q in (0.0, 0.3, 1.0, [0.5], [0.1, 0.5, 0.9]):
        np.testing.assert_allclose(
            p.quantile(q), np.quantile(samples, q, axis=0), rtol=1e-6
        )
        assert p.quantile(q).shape == np.shape(q) + shape


def test_quantile_without_samples_knows_only_what_was_asked_for():
    samples = normal((4, 2))
    levels = [0.9, 0.1]
    values = np.quantile(samples, levels, axis=0)
    p = make(
        "regression",
        samples,
        keep=False,
        quantile_levels=levels,
        quantile_values=values,
    )
    np.testing.assert_array_equal(p.quantile(0.1), values[1].astype("f4"))
    np.testing.assert_array_equal(
        p.quantile([0.1, 0.9]), values[::-1].astype("f4")
    )
    for q in (0.5, [0.1, 0.5]):
        with pytest.raises(MissingSamplesError) as error:
            p.quantile(q)
        text = str(error.value)
        assert f"q={q}" in text
        assert "Expected" in text
        assert "quantile_levels=(0.9, 0.1)" in text
        assert "return_samples=True" in text
        assert "quantiles=[" in text
    bare = make("regression", samples, keep=False)
    with pytest.raises(MissingSamplesError, match="quantile_levels=None"):
        bare.quantile(0.1)


@pytest.mark.parametrize("q", [-0.1, 1.1, [0.5, math.nan], [[0.5]], []])
def test_quantile_of_a_bad_level(q):
    with pytest.raises(BayesdropError, match=r"`q`.*Expected.*Received: q="):
        make("regression", normal((3,))).quantile(q)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 95, math.nan])
def test_interval_of_a_bad_level(level):
    with pytest.raises(BayesdropError, match=r"`level`.*\(0, 1\).*level="):
        make("regression", normal((3,))).interval(level)


def mixture_root(samples, noise, q):
    """Quantile of one mixture by scipy's root finder."""

    def excess(x):
        return scipy.stats.norm.cdf(x, samples, noise).mean() - q

    reach = 40 * noise
    return scipy.optimize.brentq(
        excess, samples.min() - reach, samples.max() + reach, xtol=1e-13
    )


@settings(max_examples=40, deadline=None)
@given(
    num_samples=st.integers(2, 30),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 1e4]),
    tau=st.sampled_from([1e-4, 0.1, 1.0, 30.0, 1e6]),
    level=st.floats(0.01, 0.999),
    seed=st.integers(0, 2**32 - 1),
)
def test_interval_is_that_of_the_mixture(num_samples, spread, tau, level, seed):
    rng = np.random.default_rng(seed)
    samples = 5.0 + spread * rng.standard_normal((num_samples, 3, 2))
    p = make("regression", samples, noise_precision=tau)
    noise = tau**-0.5
    for bound, q in zip(
        p.interval(level), [(1 - level) / 2, (1 + level) / 2], strict=True
    ):
        assert bound.shape == (3, 2)
        for element in np.ndindex(3, 2):
            column = samples[(slice(None), *element)]
            # Between samples far apart the distribution function is flat to
            # the last digit and the root is anywhere: compare its values,
            # and the roots where there is a slope.
            reached = scipy.stats.norm.cdf(bound[element], column, noise)
            assert abs(reached.mean() - q) < 1e-8
            slope = scipy.stats.norm.pdf(bound[element], column, noise)
            if slope.mean() * noise > 1e-4:
                expected = mixture_root(column, noise, q)
                assert bound[element] == pytest.approx(
                    expected, rel=1e-9, abs=1e-8 * noise
                )


def test_mixture_interval_is_the_same_in_pieces(monkeypatch):
    samples = normal((40,), 50, dtype="float64")
    p = make("regression", samples, noise_precision=3.0)
    whole = p.interval(0.9)
    monkeypatch.setattr(
        "keras_bayesdrop.predictive.mixture._MIXTURE_VALUES", 50 * 7
    )
    np.testing.assert_allclose(p.interval(0.9), whole, rtol=1e-12)


def test_mixture_interval_covers_as_promised():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((200, 1))
    p = make("regression", samples, noise_precision=4.0)
    lower, upper = p.interval(0.8)
    draws = rng.choice(samples[:, 0], 40_000) + rng.normal(0, 0.5, 40_000)
    covered = np.mean((draws > lower) & (draws < upper))
    # 40,000 Bernoulli(0.8) draws: 4 standard errors are 0.008.
    assert covered == pytest.approx(0.8, abs=0.008)


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
def test_interval_without_noise_is_that_of_the_samples(task):
    samples = simplex((6, 3))
    lower, upper = make(task, samples).interval(0.5)
    expected = np.quantile(samples, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(lower, expected[0], rtol=1e-6)
    np.testing.assert_allclose(upper, expected[1], rtol=1e-6)


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.8])
def test_interval_uses_matching_levels(task, level):
    samples = simplex((6, 3))
    # As a person would write them: (1 - 0.9) / 2 is not the float 0.05.
    levels = [0.025, 0.05, 0.1, 0.5, 0.9, 0.95, 0.975]
    p = make(
        task,
        samples,
        keep=False,
        quantile_levels=levels,
        quantile_values=np.quantile(samples, levels, axis=0),
    )
    expected = make(task, samples).interval(level)
    np.testing.assert_allclose(p.interval(level), expected, rtol=1e-5)


def test_interval_without_anything_is_the_normal_one():
    samples = normal((6, 2), dtype="float64")
    p = make("regression", samples, keep=False)
    std = samples.std(axis=0, ddof=1)
    noisy = ({"head": Regression(noise_precision=0.5)}, std**2 + 2)
    for fields, variance in (({}, std**2), noisy):
        q = dataclasses.replace(p, **fields)
        expected = scipy.stats.norm.interval(
            0.9, samples.mean(axis=0), np.sqrt(variance)
        )
        np.testing.assert_allclose(q.interval(0.9), expected)


def test_quantile_levels_are_not_an_interval_of_a_noisy_observation():
    samples = normal((6,), dtype="float64")
    levels = [0.05, 0.95]
    p = make(
        "regression",
        samples,
        keep=False,
        noise_precision=0.01,
        quantile_levels=levels,
        quantile_values=np.quantile(samples, levels, axis=0),
    )
    lower, upper = p.interval(0.9)
    np.testing.assert_allclose(
        upper - lower, 2 * scipy.stats.norm.ppf(0.95) * np.sqrt(p.total)
    )


@pytest.mark.parametrize("task", ["classification", "binary"])
def test_normal_interval_of_a_probability_stays_in_the_unit_interval(task):
    samples = np.array([[[0.02, 0.98]], [[0.3, 0.7]], [[0.5, 0.5]]])
    p = make(task, samples, keep=False)
    lower, upper = p.interval(0.95)
    mean, std = samples.mean(axis=0), samples.std(axis=0, ddof=1)
    np.testing.assert_allclose(lower, np.clip(mean - 1.959964 * std, 0, 1))
    np.testing.assert_allclose(
        upper, np.clip(mean + 1.959964 * std, 0, 1), rtol=1e-6
    )
    assert lower.min() == 0.0
    assert upper.max() == 1.0
