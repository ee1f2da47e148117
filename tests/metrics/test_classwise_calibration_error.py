# SPDX-License-Identifier: Apache-2.0
"""Class-wise calibration errors, of equal width and of equal mass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from tests.metrics import cases


def by_loop(p, labels, bins):
    """The definition with bins of equal width, class by class."""
    total = 0.0
    for c in range(p.shape[1]):
        for b in range(bins):
            inside = np.ceil(p[:, c] * bins) == b + 1
            if b == 0:
                inside |= p[:, c] == 0
            if inside.any():
                gap = np.mean(labels[inside] == c) - p[inside, c].mean()
                total += inside.sum() / len(p) * abs(gap)
    return total / p.shape[1]


@given(st.integers(1, 100), st.integers(1, 20), st.integers(0, 1000))
def test_equal_width(rows, bins, seed):
    p, labels = cases.classes(rows, seed)
    result = metrics.classwise_calibration_error(labels, p, bins)
    assert result == pytest.approx(by_loop(p, labels, bins), abs=1e-12)
    same = cases.predictive("classification", p)
    assert metrics.classwise_calibration_error(labels, same, bins) == result


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 1000))
def test_equal_mass_by_the_formula_of_nixon(size, bins, seed):
    p, labels = cases.classes(size * bins, seed)
    gaps = []
    for c in range(4):
        order = np.argsort(p[:, c])
        for part in order.reshape(bins, size):
            gaps.append(np.mean(labels[part] == c) - p[part, c].mean())
    result = metrics.adaptive_calibration_error(labels, p, bins)
    assert result == pytest.approx(np.mean(np.abs(gaps)), abs=1e-12)
    assert result == metrics.classwise_calibration_error(
        labels, p, bins, "mass"
    )


def test_binary_is_one_of_two_mirrored_classes():
    p, labels = cases.binary()
    both = np.stack([1 - p, p], axis=1)
    for binning in ("width", "mass"):
        # 200 rows in 8 bins of 25: the split of 1 - p is that of p, mirrored.
        assert metrics.classwise_calibration_error(
            labels, p, 8, binning
        ) == pytest.approx(
            metrics.classwise_calibration_error(labels, both, 8, binning)
        )


def test_sees_what_the_likeliest_class_hides():
    # The first class is right as often as it says; the others are swapped.
    p = np.tile([0.6, 0.4, 0.0], (10, 1))
    labels = [0] * 6 + [2] * 4
    assert metrics.expected_calibration_error(labels, p) == pytest.approx(0)
    assert metrics.classwise_calibration_error(labels, p) == pytest.approx(
        0.8 / 3
    )


@pytest.mark.parametrize(
    "error",
    [metrics.classwise_calibration_error, metrics.adaptive_calibration_error],
)
def test_certain_rows_and_one_row(error):
    assert error([0, 1, 2], np.eye(3)) == 0.0
    assert error([1, 0], np.eye(2)) == 1.0
    assert error([0], [0.25]) == 0.25
    with pytest.raises(BayesdropError, match="`num_bins`"):
        error([1], [0.5], 0)
    with pytest.raises(BayesdropError, match="at least one example"):
        error([], np.ones((0, 3)))
