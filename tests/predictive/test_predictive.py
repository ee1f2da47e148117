# SPDX-License-Identifier: Apache-2.0
import dataclasses
import io
import json
import math
import os
import pickle
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import keras_bayesdrop.errors
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import Stats

SHAPES = [(7,), (7, 1), (7, 3), (2, 4, 5), (1,), (1, 1)]
CLASS_SHAPES = [(7, 3), (1, 2), (2, 4, 5)]
ARRAYS = (
    "mean",
    "variance",
    "samples",
    "quantile_values",
    "mean_entropy",
    "vote_counts",
)


def make_stats(num_samples, num_rows, **changes):
    stats = Stats(
        num_samples=num_samples,
        num_rows=num_rows,
        seed=2**63 + 5,
        masks="shared",
        method="sampling",
        engine=(
            EngineStep(name="prefix", engine="keras", reason="no noise"),
            EngineStep(name="rest", engine="reference", reason="asked for"),
        ),
        seconds=0.1 + 0.2,
        samples_per_second=1 / 3,
        batch_size=32,
    )
    return dataclasses.replace(stats, **changes)


def make(task, samples, keep=True, noise_precision=None, **fields):
    """A prediction from `samples`, as an engine would accumulate it."""
    samples = np.asarray(samples)
    wide = samples.astype("float64")
    if noise_precision is not None:
        assert task == "regression"
        task = Regression(noise_precision=noise_precision)
    return Predictive(
        head=task,
        mean=wide.mean(axis=0).astype(samples.dtype),
        variance=wide.var(axis=0, ddof=1).astype(samples.dtype),
        samples=samples if keep else None,
        stats=make_stats(len(samples), samples.shape[1]),
        **fields,
    )


def normal(shape, num_samples=20, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return rng.normal(3.0, 2.0, (num_samples, *shape)).astype(dtype)


def simplex(shape, num_samples=20, seed=0, dtype="float32"):
    logits = 2 * np.random.default_rng(seed).standard_normal(
        (num_samples, *shape)
    )
    return scipy.special.softmax(logits, axis=-1).astype(dtype)


def unit(shape, num_samples=20, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(num_samples, *shape)).astype(dtype)


def bernoulli_entropy(p):
    return scipy.special.entr(p) + scipy.special.entr(1 - p)


# Moments.


@pytest.mark.parametrize("num_samples", [2, 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_moments(shape, num_samples):
    samples = normal(shape, num_samples, dtype="float64")
    p = make("regression", samples)
    np.testing.assert_allclose(p.std, samples.std(axis=0, ddof=1))
    np.testing.assert_allclose(p.mc_error, scipy.stats.sem(samples, axis=0))
    assert p.mean.shape == p.std.shape == p.mc_error.shape == shape
    assert len(p) == shape[0]


def test_mc_error_is_the_error_of_the_mean():
    # 2000 independent predictions of 25 samples each: their means scatter
    # around 3 with variance 4 / 25. Relative standard errors: of the mean of
    # 2000 squared errors sqrt(2 / 2000) = 3.2 %, of the mean of mc_error**2
    # sqrt(2 / 24 / 2000) = 0.6 %; together 3.3 %, four times that is 13 %.
    p = make("regression", normal((2000,), 25))
    observed = np.mean((p.mean - 3.0) ** 2)
    np.testing.assert_allclose(np.mean(p.mc_error**2), observed, rtol=0.13)
    np.testing.assert_allclose(observed, 4.0 / 25, rtol=0.13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
def test_results_have_the_type_of_the_mean(task, dtype):
    maker = {"regression": normal, "classification": simplex, "binary": unit}
    p = make(task, maker[task]((5, 3), dtype=dtype))
    y = np.ones((5, 3)) if task == "binary" else np.ones(5, int)
    results = [
        *(p.mean, p.variance, p.std, p.mc_error),
        *(p.epistemic, p.aleatoric, p.total),
        *(p.quantile(0.3), p.quantile([0.1, 0.2]), *p.interval(0.8)),
    ]
    if task == "regression":
        p = dataclasses.replace(p, head=Regression(noise_precision=2.0))
        results += [*p.interval(0.8), p.log_likelihood(np.ones((5, 3)))]
        results += [p.aleatoric, p.total]
    else:
        results += [p.predictive_entropy, p.expected_entropy]
        results += [p.mutual_information, p.variation_ratio]
        results += [p.log_likelihood(y)]
    small = dataclasses.replace(p, samples=None)
    results += [*small.interval(0.8)]
    assert {str(result.dtype) for result in results} == {dtype}


def test_other_types_become_float32_and_arrays_are_not_copied():
    mean = np.ones((3, 2), "float32")
    p = Predictive(
        head="regression",
        mean=mean,
        variance=np.ones((3, 2), "float16"),
        stats=make_stats(4, 3),
        samples=np.ones((4, 3, 2), "int64"),
    )
    assert p.mean is mean
    assert p.variance.dtype == p.samples.dtype == np.float32


# Quantiles and intervals.


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


# Information.


@pytest.mark.parametrize("num_samples", [2, 25])
@pytest.mark.parametrize("shape", CLASS_SHAPES)
def test_information_of_classes(shape, num_samples):
    samples = simplex(shape, num_samples, dtype="float64")
    p = make("classification", samples)
    whole = scipy.stats.entropy(samples.mean(axis=0), axis=-1)
    part = scipy.stats.entropy(samples, axis=-1).mean(axis=0)
    # MI is also the mean divergence of the samples from their mean.
    divergence = scipy.stats.entropy(
        samples, np.broadcast_to(samples.mean(axis=0), samples.shape), axis=-1
    ).mean(axis=0)
    assert p.predictive_entropy.shape == shape[:-1]
    np.testing.assert_allclose(p.predictive_entropy, whole)
    np.testing.assert_allclose(p.expected_entropy, part)
    np.testing.assert_allclose(p.mutual_information, divergence, atol=1e-14)
    assert p.mutual_information.min() > 0.0


@pytest.mark.parametrize("num_samples", [2, 25])
@pytest.mark.parametrize("shape", SHAPES)
def test_information_of_binary_labels(shape, num_samples):
    samples = unit(shape, num_samples, dtype="float64")
    p = make("binary", samples)
    whole = bernoulli_entropy(samples.mean(axis=0))
    part = bernoulli_entropy(samples).mean(axis=0)
    assert p.predictive_entropy.shape == shape
    np.testing.assert_allclose(p.predictive_entropy, whole)
    np.testing.assert_allclose(p.expected_entropy, part)
    np.testing.assert_allclose(p.mutual_information, whole - part)


def test_information_without_samples():
    samples = simplex((6, 4))
    full = make("classification", samples)
    votes = np.zeros((6, 4), "int64")
    for sample in samples:
        votes[np.arange(6), sample.argmax(axis=-1)] += 1
    small = make(
        "classification",
        samples,
        keep=False,
        mean_entropy=scipy.stats.entropy(samples, axis=-1).mean(axis=0),
        vote_counts=votes,
    )
    for name in ("expected_entropy", "mutual_information", "variation_ratio"):
        np.testing.assert_allclose(
            getattr(small, name), getattr(full, name), atol=3e-7
        )
    bare = make("classification", samples, keep=False)
    for name in ("expected_entropy", "mutual_information", "variation_ratio"):
        with pytest.raises(
            MissingSamplesError, match=f"`{name}`.*Expected.*Received: samples"
        ):
            getattr(bare, name)
    assert bare.predictive_entropy.shape == (6,)


@pytest.mark.parametrize("task", ["classification", "binary"])
def test_certain_samples_give_zero_and_no_warning(task):
    samples = np.zeros((4, 2, 3), "float32")
    samples[:, 0, 0] = samples[:, 1, 2] = 1.0
    p = make(task, samples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in (
            "predictive_entropy",
            "expected_entropy",
            "mutual_information",
            "variation_ratio",
            "aleatoric",
            "total",
        ):
            np.testing.assert_array_equal(getattr(p, name), 0.0)


@pytest.mark.parametrize("task", ["classification", "binary"])
def test_probabilities_rounded_beyond_one_do_no_harm(task):
    # What a float16 softmax may give: a little above 1 and below 0.
    samples = np.full((4, 1, 2), [1.001, -0.001], "float32")
    p = make(task, samples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(p.predictive_entropy, 0.0)
        np.testing.assert_array_equal(p.expected_entropy, 0.0)
        np.testing.assert_array_equal(p.aleatoric, 0.0)
        np.testing.assert_array_equal(p.log_likelihood([[1, 0]]), 0.0)
        np.testing.assert_array_equal(p.log_likelihood([[0, 1]]), -np.inf)


def test_samples_that_disagree_for_certain():
    samples = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    p = make("classification", samples)
    np.testing.assert_allclose(p.predictive_entropy, math.log(2))
    np.testing.assert_allclose(p.mutual_information, math.log(2))
    np.testing.assert_array_equal(p.expected_entropy, 0.0)
    np.testing.assert_array_equal(p.variation_ratio, 0.5)


def test_mutual_information_is_never_negative():
    rng = np.random.default_rng(0)
    same = scipy.special.softmax(rng.standard_normal((500, 10)), axis=-1)
    p = make("classification", np.repeat(same[None], 3, 0).astype("float32"))
    assert p.mutual_information.min() >= 0.0
    assert p.mutual_information.max() < 1e-6


@pytest.mark.parametrize("shape", CLASS_SHAPES)
def test_variation_ratio_of_classes(shape):
    samples = simplex(shape, 11)
    expected = np.empty(shape[:-1])
    for place in np.ndindex(shape[:-1]):
        votes = [sample[place].argmax() for sample in samples]
        expected[place] = 1 - max(map(votes.count, votes)) / 11
    p = make("classification", samples)
    np.testing.assert_allclose(p.variation_ratio, expected, rtol=1e-6)
    assert expected.max() > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_variation_ratio_of_binary_labels(shape):
    samples = unit(shape, 11)
    ones = (samples >= 0.5).sum(axis=0)
    expected = np.minimum(ones, 11 - ones) / 11
    p = make("binary", samples)
    np.testing.assert_allclose(p.variation_ratio, expected, rtol=1e-6)
    counted = make("binary", samples, keep=False, vote_counts=ones)
    np.testing.assert_array_equal(counted.variation_ratio, p.variation_ratio)


def test_one_half_is_a_vote_for_one():
    p = make("binary", np.array([[0.5], [0.5], [0.4]]))
    np.testing.assert_allclose(p.variation_ratio, 1 / 3)


@pytest.mark.parametrize(
    "name",
    [
        "predictive_entropy",
        "expected_entropy",
        "mutual_information",
        "variation_ratio",
    ],
)
def test_information_is_not_defined_for_regression(name):
    p = make("regression", normal((3,)))
    with pytest.raises(
        BayesdropError,
        match=f"`{name}` is not defined for task='regression'.*Expected.*"
        "Received: task='regression'",
    ):
        getattr(p, name)


# Variance.


def test_variance_of_a_regression():
    samples = normal((5, 2), dtype="float64")
    p = make("regression", samples)
    np.testing.assert_array_equal(p.aleatoric, np.zeros((5, 2)))
    np.testing.assert_array_equal(p.epistemic, p.variance)
    np.testing.assert_array_equal(p.total, p.variance)
    noisy = make("regression", samples, noise_precision=4.0)
    np.testing.assert_array_equal(noisy.aleatoric, np.full((5, 2), 0.25))
    np.testing.assert_allclose(noisy.total, p.variance + 0.25)


@pytest.mark.parametrize("num_samples", [2, 20])
@pytest.mark.parametrize("task", ["classification", "binary"])
def test_variance_of_a_label(task, num_samples):
    samples = simplex((5, 3), num_samples, dtype="float64")
    p = make(task, samples, keep=False)
    inner = (samples * (1 - samples)).mean(axis=0)
    np.testing.assert_allclose(p.aleatoric, inner, rtol=1e-12)
    np.testing.assert_allclose(p.epistemic, samples.var(axis=0, ddof=1))
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)


def test_total_variance_of_a_label_is_that_of_draws():
    # A label drawn from a sample drawn at random. 200,000 draws of a zero or
    # one: the standard error of their variance is below
    # 0.5 * 1 / sqrt(200,000) = 0.0011. `epistemic` with T - 1 instead of T
    # adds at most 0.25 / 400; 4 standard errors and that are 0.0051.
    samples = unit((1,), 400, dtype="float64")
    p = make("binary", samples)
    rng = np.random.default_rng(1)
    draws = rng.uniform(size=200_000) < rng.choice(samples[:, 0], 200_000)
    assert float(p.total[0]) == pytest.approx(draws.var(), abs=0.0051)


# Log-likelihood.


@pytest.mark.parametrize("num_samples", [2, 50])
@pytest.mark.parametrize("tau", [0.01, 1.0, 1e5])
@pytest.mark.parametrize("shape", SHAPES)
def test_log_likelihood_of_a_regression(shape, tau, num_samples):
    samples = normal(shape, num_samples, dtype="float64")
    y = normal(shape, 1, seed=9)[0]
    p = make("regression", samples, noise_precision=tau)
    logs = scipy.stats.norm.logpdf(y, samples, tau**-0.5)
    joint = logs.reshape(num_samples, shape[0], -1).sum(axis=-1)
    expected = scipy.special.logsumexp(joint, axis=0) - math.log(num_samples)
    assert p.log_likelihood(y).shape == (shape[0],)
    np.testing.assert_allclose(p.log_likelihood(y), expected)


def test_log_likelihood_by_the_formula_of_the_paper():
    samples = normal((8, 1), 30, dtype="float64")
    y = normal((8,), 1, seed=9, dtype="float64")[0]
    tau = 0.7
    expected = (
        scipy.special.logsumexp(
            -0.5 * tau * (y[None] - samples[..., 0]) ** 2, axis=0
        )
        - np.log(30)
        - 0.5 * np.log(2 * np.pi)
        + 0.5 * np.log(tau)
    )
    p = make("regression", samples, noise_precision=tau)
    np.testing.assert_allclose(p.log_likelihood(y), expected)
    np.testing.assert_allclose(p.log_likelihood(y[:, None]), expected)
    flat = make("regression", samples[..., 0], noise_precision=tau)
    np.testing.assert_allclose(flat.log_likelihood(y[:, None]), expected)


def test_log_likelihood_of_a_regression_needs_noise_and_samples():
    samples = normal((3,))
    with pytest.raises(BayesdropError, match="noise_precision=None"):
        make("regression", samples).log_likelihood(np.ones(3))
    p = make("regression", samples, keep=False, noise_precision=1.0)
    with pytest.raises(MissingSamplesError, match="return_samples=True"):
        p.log_likelihood(np.ones(3))


def test_log_likelihood_of_classes():
    samples = simplex((6, 4), dtype="float64")
    labels = np.array([0, 3, 1, 2, 2, 0])
    expected = np.log(samples.mean(axis=0)[np.arange(6), labels])
    for keep in (True, False):
        p = make("classification", samples, keep=keep)
        for y in (
            labels,
            labels[:, None],
            labels.astype("float32"),
            labels.tolist(),
            np.eye(4)[labels],
            np.eye(4, dtype=bool)[labels],
        ):
            np.testing.assert_allclose(p.log_likelihood(y), expected)


def test_log_likelihood_of_many_labels_per_row_is_their_sum():
    samples = simplex((2, 5, 3), dtype="float64")
    labels = np.random.default_rng(0).integers(0, 3, (2, 5))
    p = make("classification", samples)
    mean = samples.mean(axis=0)
    expected = [
        sum(math.log(mean[i, j, labels[i, j]]) for j in range(5))
        for i in range(2)
    ]
    np.testing.assert_allclose(p.log_likelihood(labels), expected)
    np.testing.assert_allclose(p.log_likelihood(np.eye(3)[labels]), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_log_likelihood_of_binary_labels(shape):
    samples = unit(shape, dtype="float64")
    y = np.random.default_rng(0).integers(0, 2, shape)
    logs = scipy.stats.bernoulli.logpmf(y, samples.mean(axis=0))
    expected = logs.reshape(shape[0], -1).sum(axis=1)
    p = make("binary", samples)
    for labels in (y, y.astype(bool), y.astype("float32"), y[..., None]):
        np.testing.assert_allclose(p.log_likelihood(labels), expected)


def test_impossible_label_gives_minus_infinity_without_a_warning():
    samples = np.tile([[1.0, 0.0], [0.0, 1.0]], (3, 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logs = make("classification", samples).log_likelihood([0, 0])
        np.testing.assert_array_equal(logs, [0.0, -np.inf])
        logs = make("binary", samples[..., 0]).log_likelihood([0, 0])
        np.testing.assert_array_equal(logs, [-np.inf, 0.0])


@pytest.mark.parametrize(
    ("task", "shape", "y", "match"),
    [
        ("regression", (3, 2), np.ones(3), r"Expected \(3, 2\).*\(3,\)"),
        ("regression", (3,), np.ones(4), r"Expected \(3,\).*\(4,\)"),
        ("regression", (3,), ["a", "b", "c"], "Expected an array of numbers"),
        ("classification", (3, 2), [0, 1, 2], "0 to 1.*from 0 to 2"),
        ("classification", (3, 2), [0, 1, -1], "0 to 1.*from -1 to 1"),
        ("classification", (3, 2), [0, 0.5, 1], "0 to 1.*float64"),
        ("classification", (3, 2), [0, math.nan, 1], "0 to 1.*nan"),
        ("classification", (3, 2), [0, 1], r"\(3,\) of class.*\(2,\)"),
        ("classification", (3, 2), np.ones((3, 2)), "one 1.*sums from 2.0"),
        ("classification", (3, 2), np.full((3, 2), 0.5), "one 1.*0.5"),
        ("classification", (3, 2), np.zeros((3, 2)), "one 1.*sums from 0.0"),
        ("binary", (3,), [0, 1, 2], "only 0 and 1.*0 to 2"),
        ("binary", (3,), [0, 1, 0.5], "only 0 and 1.*float64"),
        ("binary", (3, 2), [0, 1, 0], r"Expected \(3, 2\).*\(3,\)"),
    ],
)
def test_bad_labels(task, shape, y, match):
    maker = {"regression": normal, "classification": simplex, "binary": unit}
    fields = {"noise_precision": 1.0} if task == "regression" else {}
    p = make(task, maker[task](shape), **fields)
    with pytest.raises(BayesdropError, match=f"`y`.*{match}"):
        p.log_likelihood(y)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_targets_must_be_finite(bad):
    p = make("regression", normal((3,)), noise_precision=1.0)
    with pytest.raises(NonFiniteError, match=r"`y`.*finite.*1 value"):
        p.log_likelihood([0.0, bad, 1.0])


# Distributions.


def test_importing_needs_neither_tensorflow_nor_keras():
    package = os.path.dirname(keras_bayesdrop.errors.__file__)
    code = (
        "import sys, types\n"
        "root = types.ModuleType('keras_bayesdrop')\n"
        f"root.__path__ = [{package!r}]\n"
        "sys.modules['keras_bayesdrop'] = root\n"
        "import keras_bayesdrop.predictive\n"
        "import keras_bayesdrop.prediction.sampling.sketch\n"
        "import keras_bayesdrop.metrics\n"
        "heavy = {'tensorflow', 'keras', 'scipy', 'tensorflow_probability'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# TensorFlow Probability 0.25 compares versions with distutils as it loads.
loads_tfp = pytest.mark.filterwarnings(
    "ignore:distutils Version classes are deprecated:DeprecationWarning"
)


@loads_tfp
@pytest.mark.parametrize("shape", SHAPES)
def test_mixture_distribution(shape):
    samples = normal(shape, 30)
    p = make("regression", samples, noise_precision=2.0)
    distribution = p.to_distribution()
    assert tuple(distribution.batch_shape) == shape
    assert tuple(distribution.event_shape) == ()
    np.testing.assert_allclose(distribution.mean(), p.mean, rtol=1e-5)
    np.testing.assert_allclose(
        distribution.variance(), samples.var(axis=0) + 0.5, rtol=1e-4
    )
    y = normal(shape, 1, seed=4)[0]
    logs = np.asarray(distribution.log_prob(y)).reshape(shape[0], -1)
    if logs.shape[1] == 1:
        np.testing.assert_allclose(
            p.log_likelihood(y), logs[:, 0], rtol=1e-4, atol=1e-5
        )
    lower, _ = p.interval(0.9)
    np.testing.assert_allclose(distribution.cdf(lower), 0.05, atol=1e-5)


@loads_tfp
@pytest.mark.parametrize("shape", SHAPES)
def test_empirical_distribution(shape):
    samples = normal(shape, 9)
    distribution = make("regression", samples).to_distribution()
    assert tuple(distribution.batch_shape) == shape
    np.testing.assert_allclose(
        distribution.mean(), samples.mean(axis=0), rtol=1e-5
    )
    np.testing.assert_allclose(
        distribution.cdf(np.median(samples, axis=0)), 5 / 9, rtol=1e-6
    )


@loads_tfp
def test_normal_distribution():
    p = make("regression", normal((4, 2)), keep=False, noise_precision=0.5)
    distribution = p.to_distribution()
    np.testing.assert_array_equal(distribution.loc, p.mean)
    np.testing.assert_allclose(
        distribution.scale, np.sqrt(p.variance + 2.0), rtol=1e-6
    )


@loads_tfp
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_label_distributions(dtype):
    p = make("classification", simplex((4, 3), dtype=dtype))
    distribution = p.to_distribution()
    assert tuple(distribution.batch_shape) == (4,)
    y = np.array([0, 2, 1, 1])
    np.testing.assert_allclose(
        distribution.log_prob(y), p.log_likelihood(y), rtol=1e-5
    )
    p = make("binary", unit((4, 1), dtype=dtype))
    distribution = p.to_distribution()
    assert tuple(distribution.batch_shape) == (4, 1)
    y = np.array([[0], [1], [1], [0]])
    np.testing.assert_allclose(
        np.asarray(distribution.log_prob(y))[:, 0],
        p.log_likelihood(y),
        rtol=1e-5,
    )


# Saving and pickling.


def everything(task):
    maker = {"regression": normal, "classification": simplex, "binary": unit}
    samples = maker[task]((5, 3))
    levels = (0.1, 1 / 3, 0.9)
    labels = (5,) if task == "classification" else (5, 3)
    fields = (
        {"noise_precision": 1 / 3}
        if task == "regression"
        else {
            "mean_entropy": np.full(labels, 0.25, "float32"),
            "vote_counts": np.arange(15).reshape(5, 3),
        }
    )
    return make(
        task,
        samples,
        quantile_levels=levels,
        quantile_values=np.quantile(samples, levels, axis=0),
        **fields,
    )


def assert_same(a, b):
    for field in dataclasses.fields(Predictive):
        first, second = getattr(a, field.name), getattr(b, field.name)
        if isinstance(first, np.ndarray):
            assert first.dtype == second.dtype
            np.testing.assert_array_equal(first, second)
        else:
            assert first == second
            assert type(first) is type(second)


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
def test_save_and_load(task, tmp_path):
    p = everything(task)
    for name in ("p.npz", "no_suffix"):
        p.save(tmp_path / name)
        assert_same(p, Predictive.load(tmp_path / name))
        assert_same(p, Predictive.load(str(tmp_path / name)))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["no_suffix", "p.npz"]


def test_save_and_load_without_what_is_optional(tmp_path):
    p = make("regression", normal((3,), dtype="float64"), keep=False)
    p.save(tmp_path / "p.npz")
    assert_same(p, Predictive.load(tmp_path / "p.npz"))


def test_saving_replaces(tmp_path):
    everything("binary").save(tmp_path / "p.npz")
    p = make("regression", normal((2,)))
    p.save(tmp_path / "p.npz")
    assert_same(p, Predictive.load(tmp_path / "p.npz"))


def test_file_holds_no_pickle(tmp_path):
    everything("classification").save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz", allow_pickle=False) as archive:
        assert {*archive} == {"meta", *ARRAYS}
        assert all(archive[name].dtype.kind in "fiU" for name in archive)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Predictive.load(tmp_path / "nothing.npz")


LOAD_ERROR = "Cannot read a prediction.*Expected a whole file.*Received: "


def test_damaged_files(tmp_path):
    path = tmp_path / "p.npz"
    make("regression", normal((2,), 2)).save(path)
    whole = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for end in range(0, len(whole), 17):
            path.write_bytes(whole[:end])
            with pytest.raises(BayesdropError, match=LOAD_ERROR):
                Predictive.load(path)


def test_a_changed_bit_is_refused_or_harmless(tmp_path):
    path = tmp_path / "p.npz"
    p = make("regression", normal((2,), 2))
    p.save(path)
    whole = path.read_bytes()
    # Everywhere at random, and all of the first entry of the zip directory.
    rng = np.random.default_rng(0)
    entry = whole.index(b"PK\x01\x02")
    bits = [*rng.integers(8 * len(whole), size=300)]
    bits += range(8 * entry, 8 * (entry + 46))
    refused = 0
    for bit in bits:
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            loaded = Predictive.load(path)
        except BayesdropError:
            refused += 1
        else:
            assert_same(p, loaded)
    # Zip keeps a checksum of all that counts; the rest is dates and flags.
    assert refused > len(bits) / 2


def test_damaged_compression(tmp_path):
    path = tmp_path / "p.npz"
    make("regression", normal((2,), 2)).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert len(Predictive.load(path)) == 2
    changed = bytearray(path.read_bytes())
    start = changed.index(b"meta.npy") + len(b"meta.npy")
    changed[start : start + 20] = b"\xff" * 20
    path.write_bytes(changed)
    with pytest.raises(BayesdropError, match=LOAD_ERROR + "error: Error -3"):
        Predictive.load(path)


def test_foreign_files(tmp_path):
    path = tmp_path / "p.npz"

    def refuse(match):
        with pytest.raises(BayesdropError, match=LOAD_ERROR + match):
            Predictive.load(path)

    path.write_bytes(b"hello, world")
    refuse("")
    path.write_bytes(pickle.dumps({"a": 1}))
    refuse("")
    with open(path, "wb") as file:
        np.save(file, np.ones(3))
    refuse("")
    np.savez(path, a=np.ones(3))
    refuse("KeyError")
    np.savez(path, meta=np.array({"format": 1}, dtype=object))
    refuse("ValueError: Object arrays")
    np.savez(path, meta=np.array(json.dumps([1, 2])))
    refuse("TypeError")
    np.savez(path, meta=np.array(json.dumps({"format": 99})))
    refuse("ValueError: format 99")


def test_inconsistent_file(tmp_path):
    path = tmp_path / "p.npz"
    make("regression", normal((2,), 2)).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    wrong = io.BytesIO()
    np.save(wrong, np.ones(3, "float32"))
    parts["variance.npy"] = wrong.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(BayesdropError, match=LOAD_ERROR + ".*`variance`"):
        Predictive.load(path)


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
def test_pickle(task):
    p = everything(task)
    assert_same(p, pickle.loads(pickle.dumps(p)))


# Rows.


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
@pytest.mark.parametrize(
    "rows",
    [
        slice(1, 4),
        slice(None, None, -2),
        [3, 0, 3],
        np.array([4, 1]),
        np.array([True, False, True, False, False]),
        [False, True, False, False, True],
        [],
        slice(0, 0),
        np.int64(2),
        -1,
    ],
    ids=str,
)
def test_selecting_rows(task, rows):
    p = everything(task)
    part = p[rows]
    index = rows if isinstance(rows, slice) else np.atleast_1d(rows)
    if np.size(index) == 0:
        index = slice(0, 0)
    expected = p.mean[index]
    assert len(part) == part.stats.num_rows == len(expected)
    assert part.stats.num_samples == p.stats.num_samples
    for name in ARRAYS:
        array = getattr(p, name)
        if array is None:
            assert getattr(part, name) is None
            continue
        many = name in ("samples", "quantile_values")
        wanted = array[:, index] if many else array[index]
        np.testing.assert_array_equal(getattr(part, name), wanted)
    np.testing.assert_array_equal(part.std, p.std[index])
    np.testing.assert_array_equal(part.quantile(0.2), p.quantile(0.2)[index])
    assert repr(part).startswith("Predictive(")


def test_no_rows():
    p = make("regression", normal((3, 2)), noise_precision=1.0)[:0]
    assert p.log_likelihood(np.ones((0, 2))).shape == (0,)
    assert p.interval(0.9)[0].shape == (0, 2)
    p = make("classification", simplex((3, 2)))[:0]
    assert p.log_likelihood([]).shape == (0,)
    assert p.mutual_information.shape == p.variation_ratio.shape == (0,)
    assert "mean_std=nan" in repr(p)


def test_a_slice_is_a_view():
    p = everything("binary")
    assert np.shares_memory(p[1:3].samples, p.samples)


def test_iterating_gives_rows():
    p = everything("regression")
    rows = list(p)
    assert [len(row) for row in rows] == [1] * 5
    np.testing.assert_array_equal(
        np.concatenate([row.mean for row in rows]), p.mean
    )


def test_bad_rows():
    p = everything("regression")
    for rows in ("a", [0.5], (slice(0, 1), 0), np.ones((5, 3), bool), True):
        with pytest.raises(BayesdropError, match="Invalid selection of rows"):
            p[rows]
    with pytest.raises(BayesdropError, match=r"length 5.*length 4"):
        p[[True] * 4]
    with pytest.raises(IndexError):
        p[5]


def test_repr():
    text = repr(make("regression", np.array([[[0.0]], [[2.0]]])))
    assert text == (
        "Predictive(task='regression', rows=1, outputs=(1,), num_samples=2 "
        "(kept), mean_std=1.414)"
    )
    assert "(not kept)" in repr(make("binary", unit((3,)), keep=False))


def test_is_frozen():
    p = make("regression", normal((3,)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.mean = np.zeros(3)


# What does not fit together.


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"head": "ranking"}, "`head`.*Expected one of.*head='ranking'"),
        ({"mean": np.float32(1)}, r"`mean`.*at least 1 axes.*\(\)"),
        ({"mean": ["a"] * 3}, "`mean`.*numbers.*<U1"),
        ({"variance": np.ones(4)}, r"`variance`.*\(3,\).*\(4,\)"),
        ({"samples": np.ones((2, 4))}, r"`samples`.*\(2, 3\).*\(2, 4\)"),
        ({"samples": np.ones((5, 3))}, r"`samples`.*\(2, 3\).*\(5, 3\)"),
        ({"quantile_levels": [0.5]}, "together.*quantile_levels"),
        ({"quantile_values": np.ones((1, 3))}, "together.*levels=None"),
        (
            {"quantile_levels": [0.5], "quantile_values": np.ones((2, 3))},
            r"`quantile_values`.*\(1, 3\).*\(2, 3\)",
        ),
        ({"stats": make_stats(1, 3)}, "at least 2.*num_samples=1"),
        ({"stats": make_stats(2, 4)}, "num_rows=3.*num_rows=4"),
        ({"head": None}, "`head`.*Expected one of.*head=None"),
        ({"task": "binary"}, "no argument `task`.*head='binary'"),
        (
            {"noise_precision": 1.0},
            r"no argument `noise_precision`.*head=Regression\(noise_precision",
        ),
        ({"head": "binary", "mean": np.full(3, 1.5)}, r"\[0, 1\].*1.5"),
        ({"head": "binary", "mean": np.full(3, -0.5)}, r"\[0, 1\].*-0.5"),
        ({"head": "binary", "mean": np.full(3, math.nan)}, r"\[0, 1\].*nan"),
        ({"head": "classification"}, r"at least 2 axes.*\(3,\)"),
        (
            {"head": "binary", "mean_entropy": np.ones((3, 2))},
            r"`mean_entropy`.*\(3,\).*\(3, 2\)",
        ),
        (
            {"head": "binary", "vote_counts": np.ones((3, 2))},
            r"`vote_counts`.*\(3,\).*\(3, 2\)",
        ),
        (
            {"head": "binary", "vote_counts": ["a", "b", "c"]},
            "`vote_counts`.*numbers",
        ),
    ],
)
def test_parts_that_do_not_fit(changes, match):
    fields = {
        "head": "regression",
        "mean": np.ones(3, "float32"),
        "variance": np.ones(3, "float32"),
        "stats": make_stats(2, 3),
    }
    Predictive(**fields)
    with pytest.raises(BayesdropError, match=match) as error:
        Predictive(**{**fields, **changes})
    assert "Expected" in str(error.value)
    assert "Received" in str(error.value)
