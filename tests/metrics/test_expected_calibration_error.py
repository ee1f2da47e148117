# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics import expected_calibration_error
from tests.metrics import cases


def many_shapes(test):
    """Runs a test for several numbers of rows and bins, and seeds."""
    drawn = given(
        rows=st.integers(1, 200),
        bins=st.integers(1, 30),
        seed=st.integers(0, 1000),
    )
    return settings(max_examples=50, deadline=None)(drawn(test))


def by_loop(confidence, right, bins):
    """The definition, bin by bin."""
    edges = np.linspace(0, 1, bins + 1)
    result = 0.0
    for low, high in itertools.pairwise(edges):
        inside = [
            i for i, value in enumerate(confidence) if low < value <= high
        ]
        if inside:
            gap = np.mean(right[inside]) - np.mean(confidence[inside])
            result += len(inside) / len(confidence) * abs(gap)
    return result


@many_shapes
def test_of_classes(rows, bins, seed):
    probabilities, labels = cases.classes(rows, seed)
    expected = by_loop(
        probabilities.max(axis=1), probabilities.argmax(axis=1) == labels, bins
    )
    result = expected_calibration_error(labels, probabilities, bins)
    assert result == pytest.approx(expected, abs=1e-12)
    p = cases.predictive("classification", probabilities)
    assert expected_calibration_error(labels, p, bins) == result


@many_shapes
def test_of_binary_labels(rows, bins, seed):
    probabilities, labels = cases.binary(rows, seed)
    expected = by_loop(
        np.maximum(probabilities, 1 - probabilities),
        (probabilities >= 0.5) == labels,
        bins,
    )
    result = expected_calibration_error(labels, probabilities[:, None], bins)
    assert result == pytest.approx(expected, abs=1e-12)
    p = cases.predictive("binary", probabilities)
    assert expected_calibration_error(labels, p, bins) == result


def test_default_is_15_bins():
    # Chance decides whether a bin is too sure or not sure enough, so that the
    # result depends on the bins; were all too sure, it would not.
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    labels = rng.uniform(size=200) < p
    default = expected_calibration_error(labels, p)
    assert default == expected_calibration_error(labels, p, 15)
    for bins in (10, 14, 16, 20):
        other = expected_calibration_error(labels, p, bins)
        assert abs(default - other) > 1e-3


def test_an_edge_belongs_to_the_bin_below():
    # Both confidences are in (0.5, 0.75]: their gaps, -0.75 and +0.375,
    # cancel in part. In different bins they would add up to 0.5625.
    probabilities = [[0.75, 0.25], [0.625, 0.375]]
    result = expected_calibration_error([1, 0], probabilities, num_bins=4)
    assert result == pytest.approx((0.75 - 0.375) / 2)


def test_certain_and_right_is_zero_and_certain_and_wrong_is_one():
    sure = np.eye(3)
    assert expected_calibration_error([0, 1, 2], sure) == 0.0
    assert expected_calibration_error([1, 2, 0], sure) == 1.0


def test_calibrated_predictions_have_a_small_error():
    # Labels drawn from the probabilities themselves. The gap of a bin with n
    # of the N labels has standard deviation s < 0.5 / sqrt(n), mean size
    # 0.8 * s, and its size scatters by 0.6 * s. Confidences fill 8 bins, so
    # the sum is on average below 0.4 * sqrt(8 / N) = 0.008 (Cauchy-Schwarz)
    # and scatters by less than 0.3 / sqrt(N) = 0.0021; four times more: 0.0165.
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    labels = rng.uniform(size=20_000) < p
    assert expected_calibration_error(labels, p) < 0.0165


def test_bad_bins():
    with pytest.raises(
        BayesdropError, match=r"`num_bins`.*at least 1.*num_bins=0"
    ):
        expected_calibration_error([0], [[0.5, 0.5]], num_bins=0)
