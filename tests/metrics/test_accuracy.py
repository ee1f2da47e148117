# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import sklearn.metrics

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics import accuracy
from tests.metrics import cases


def test_of_classes():
    probabilities, labels = cases.classes()
    expected = sklearn.metrics.accuracy_score(
        labels, probabilities.argmax(axis=1)
    )
    assert 0 < expected < 1
    assert accuracy(labels, probabilities) == pytest.approx(expected)
    assert accuracy(np.eye(4)[labels], probabilities) == expected
    assert accuracy(labels[:, None], probabilities) == expected
    p = cases.predictive("classification", probabilities)
    assert accuracy(labels, p) == expected


def test_of_binary_labels():
    probabilities, labels = cases.binary()
    expected = sklearn.metrics.accuracy_score(labels, probabilities >= 0.5)
    assert 0 < expected < 1
    for p in (probabilities, probabilities[:, None]):
        assert accuracy(labels, p) == pytest.approx(expected)
        assert accuracy(labels[:, None], p) == pytest.approx(expected)


def test_of_several_labels_per_row():
    probabilities = np.array([[0.9, 0.2, 0.5], [0.1, 0.2, 0.3]])
    labels = [[1, 0, 1], [0, 0, 1]]
    p = cases.predictive("binary", probabilities)
    assert accuracy(labels, p) == pytest.approx(5 / 6)


def test_of_a_picture_with_a_label_per_pixel():
    probabilities = np.zeros((2, 2, 3))
    probabilities[..., 1] = 1.0
    assert accuracy([[1, 0], [1, 1]], probabilities) == 0.75


@pytest.mark.parametrize(
    ("prediction", "labels", "match"),
    [
        ([[0.5, 1.5]], [0], r"\[0, 1\].*\(1, 2\)"),
        ([[0.5, np.nan]], [0], r"\[0, 1\].*\(1, 2\)"),
        (["a"], [0], r"numbers.*<U1"),
        (0.5, 1, r"one row per example.*\(\)"),
        (np.ones((0, 3)), [], r"at least one example.*\(0, 3\)"),
        ([[0.5, 0.5]], [2], r"0 to 1.*2 to 2"),
        ([0.5], [2], r"only 0 and 1.*2 to 2"),
        ([0.5, 0.5], [1], r"`y`.*\(2,\).*\(1,\)"),
    ],
)
def test_bad_input(prediction, labels, match):
    with pytest.raises(BayesdropError, match=match):
        accuracy(labels, prediction)


def test_is_not_for_a_regression():
    p = cases.predictive("regression", np.ones(3))
    with pytest.raises(BayesdropError, match="Received: task='regression'"):
        accuracy([0, 1, 0], p)
