# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import sklearn.metrics

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics import brier_score
from tests.metrics import cases


def test_of_classes():
    probabilities, labels = cases.classes()
    expected = np.mean(
        [
            sum((p[c] - (c == label)) ** 2 for c in range(4))
            for p, label in zip(probabilities, labels, strict=True)
        ]
    )
    for y in (labels, labels[:, None], np.eye(4)[labels]):
        assert brier_score(y, probabilities) == pytest.approx(expected)
    p = cases.predictive("classification", probabilities.astype("float32"))
    assert brier_score(labels, p) == pytest.approx(expected, rel=1e-6)


def test_of_binary_labels_against_scikit_learn():
    probabilities, labels = cases.binary()
    expected = sklearn.metrics.brier_score_loss(labels, probabilities)
    assert brier_score(labels, probabilities) == pytest.approx(expected)
    assert brier_score(labels, probabilities[:, None]) == pytest.approx(
        expected
    )
    p = cases.predictive("binary", probabilities.reshape(50, 4))
    assert brier_score(labels.reshape(50, 4), p) == pytest.approx(expected)
    both = np.stack([1 - probabilities, probabilities], axis=1)
    assert brier_score(labels, both) == pytest.approx(2 * expected)


def test_certain_rows():
    assert brier_score([0, 1, 2], np.eye(3)) == 0.0
    assert brier_score([1, 2, 0], np.eye(3)) == 2.0
    assert brier_score([0], [1.0]) == 1.0


def test_a_label_per_pixel():
    p = np.full((2, 3, 4), 0.25)
    assert brier_score(np.zeros((2, 3)), p) == pytest.approx(0.75)


def test_bad_input():
    with pytest.raises(BayesdropError, match="at least one example"):
        brier_score([], np.ones((0, 3)))
    with pytest.raises(BayesdropError, match=r"`y`.*\(1,\).*\(2,\)"):
        brier_score([0, 1], [0.5])
    with pytest.raises(BayesdropError, match=r"\[0, 1\]"):
        brier_score([0], [[0.5, np.nan]])
    p = cases.predictive("regression", np.ones(2))
    with pytest.raises(BayesdropError, match="Received: task='regression'"):
        brier_score([0, 1], p)
