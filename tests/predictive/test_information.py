# SPDX-License-Identifier: Apache-2.0
"""Entropies and votes."""

import math
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from tests.predictive.cases import CLASS_SHAPES
from tests.predictive.cases import SHAPES
from tests.predictive.cases import bernoulli_entropy
from tests.predictive.cases import make
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit


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
