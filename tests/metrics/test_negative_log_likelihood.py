# SPDX-License-Identifier: Apache-2.0
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.metrics import negative_log_likelihood
from keras_bayesdrop.predictive import Regression
from tests.metrics import cases


def test_of_classes():
    probabilities, labels = cases.classes()
    expected = sklearn.metrics.log_loss(labels, probabilities)
    for y in (labels, labels[:, None], np.eye(4)[labels]):
        for p in (
            probabilities,
            cases.predictive("classification", probabilities),
        ):
            assert negative_log_likelihood(y, p) == pytest.approx(expected)


def test_of_binary_labels():
    probabilities, labels = cases.binary()
    expected = sklearn.metrics.log_loss(labels, probabilities)
    for p in (
        probabilities,
        probabilities[:, None],
        cases.predictive("binary", probabilities),
    ):
        assert negative_log_likelihood(labels, p) == pytest.approx(expected)


def test_of_several_labels_per_row_is_their_sum():
    probabilities, labels = cases.binary(200)
    p = cases.predictive("binary", probabilities.reshape(50, 4))
    expected = 4 * sklearn.metrics.log_loss(labels, probabilities)
    result = negative_log_likelihood(labels.reshape(50, 4), p)
    assert result == pytest.approx(expected)


def test_of_a_regression():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((10, 6, 1))
    y = rng.standard_normal(6)
    p = cases.predictive(
        Regression(noise_precision=4.0),
        samples.mean(axis=0),
        samples=samples,
    )
    density = scipy.stats.norm.pdf(y, samples[..., 0], 0.5).mean(axis=0)
    expected = -np.mean(np.log(density))
    assert negative_log_likelihood(y, p) == pytest.approx(expected)


def test_of_a_regression_needs_samples():
    p = cases.predictive(Regression(noise_precision=1.0), np.ones(3))
    with pytest.raises(MissingSamplesError, match="return_samples=True"):
        negative_log_likelihood(np.ones(3), p)


def test_impossible_label_gives_infinity_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert negative_log_likelihood([0, 0], np.eye(2)) == np.inf
        assert negative_log_likelihood([0, 1], np.eye(2)) == 0.0


def test_of_nothing():
    for p in (
        np.ones((0, 3)),
        cases.predictive("classification", np.ones((0, 3))),
    ):
        with pytest.raises(BayesdropError, match="at least one example"):
            negative_log_likelihood([], p)
