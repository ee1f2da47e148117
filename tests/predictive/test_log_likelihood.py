# SPDX-License-Identifier: Apache-2.0
"""Log-likelihoods of labels and targets."""

import math
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from tests.predictive.cases import SHAPES
from tests.predictive.cases import make
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit


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
