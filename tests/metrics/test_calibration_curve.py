# SPDX-License-Identifier: Apache-2.0
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from tests.metrics import cases

LEVELS = [0.1, 0.5, 0.9]


@pytest.mark.parametrize("tau", [None, 4.0])
@pytest.mark.parametrize("shape", [(40,), (40, 1), (20, 3)])
def test_is_the_coverage_of_the_intervals(tau, shape):
    p, y = cases.regression(shape, tau)
    curve = metrics.calibration_curve(y, p, LEVELS)
    for level, observed in zip(LEVELS, curve.observed, strict=True):
        lower, upper = p.interval(level)
        assert observed == np.mean((lower <= y) & (y <= upper))
    assert 0 < curve.observed[1] < 1
    if tau is None:
        again = metrics.calibration_curve(y, p.samples, LEVELS)
        np.testing.assert_array_equal(again.observed, curve.observed)


def test_without_samples_is_the_normal_approximation():
    p, y = cases.regression((40,), 4.0, keep=False)
    curve = metrics.calibration_curve(y, p, LEVELS)
    size = np.abs(y - p.mean) / np.sqrt(p.total)
    # Quantiles of the normal distribution at 0.55, 0.75, 0.95.
    for reach, observed in zip(
        [0.12566, 0.67449, 1.64485], curve.observed, strict=True
    ):
        assert observed == pytest.approx(np.mean(size <= reach))


def test_a_calibrated_prediction_is_on_the_diagonal():
    # Targets drawn from the predictive. Kolmogorov: the largest gap to the
    # diagonal over N targets exceeds 1.95 / sqrt(N) with probability 0.001.
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((50, 1000))
    chosen = samples[rng.integers(50, size=1000), np.arange(1000)]
    y = chosen + 0.5 * rng.standard_normal(1000)
    p = cases.of_samples(samples, noise_precision=4.0)
    curve = metrics.calibration_curve(y, p)
    assert len(curve.expected) == 99
    gap = np.abs(curve.observed - curve.expected).max()
    assert gap < 1.95 / np.sqrt(1000)
    assert metrics.miscalibration_area(y, p) == curve.area < gap
    # With the noise forgotten intervals are too narrow at every level.
    narrow = metrics.calibration_curve(y + np.sign(y), samples)
    assert np.all(narrow.observed[20:] < narrow.expected[20:])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_area_is_the_integral(observed):
    expected = np.linspace(0, 1, len(observed) + 2)[1:-1]
    curve = metrics.CalibrationCurve(expected, np.array(observed))
    q = np.array([0, *expected, 1])
    gap = np.array([0, *(observed - expected), 0])
    result = sum(
        quad(lambda x: abs(np.interp(x, q, gap)), a, b, limit=200)[0]
        for a, b in itertools.pairwise(q)
    )
    assert curve.area == pytest.approx(result, abs=1e-6)


def test_area_of_extremes():
    samples = np.linspace(-1, 1, 11)[:, None] * np.ones(3)
    # Nothing covered: the triangle below the diagonal, but for the last step
    # up to the corner (1, 1).
    assert metrics.miscalibration_area([5, 5, 5], samples) == pytest.approx(
        0.495
    )
    assert metrics.miscalibration_area([0, 0, 0], samples) == pytest.approx(
        0.495
    )


def test_one_row_and_pickle():
    curve = metrics.calibration_curve([0.5], [[0.0], [1.0]])
    assert np.all(curve.observed == 1)
    same = pickle.loads(pickle.dumps(curve))
    np.testing.assert_array_equal(same.expected, curve.expected)


@pytest.mark.parametrize(
    "levels", [[], [0.0], [1.0], [0.5, 0.5], [0.9, 0.1], [np.nan], ["a"], 0.5]
)
def test_bad_levels(levels):
    with pytest.raises(BayesdropError, match=r"`levels`.*increasing.*levels="):
        metrics.calibration_curve([0.5], [[0.0], [1.0]], levels)


def test_bad_input():
    with pytest.raises(BayesdropError, match=r"\[T, rows, outputs\].*\(2,\)"):
        metrics.calibration_curve([0.5], [0.0, 1.0])
    with pytest.raises(BayesdropError, match=r"`y`.*\(1,\).*\(2,\)"):
        metrics.calibration_curve([0.5, 1.0], [[0.0], [1.0]])
    with pytest.raises(NonFiniteError, match="1 values"):
        metrics.calibration_curve([0.5], [[0.0], [np.nan]])
    with pytest.raises(NonFiniteError, match="`y`"):
        metrics.calibration_curve([np.nan], [[0.0], [1.0]])
    p = cases.predictive("binary", np.ones(2))
    with pytest.raises(BayesdropError, match="Received: task='binary'"):
        metrics.calibration_curve([1, 1], p)
    p = cases.predictive("regression", np.array([1.0, np.nan]))
    with pytest.raises(NonFiniteError, match="`mean`"):
        metrics.calibration_curve([1, 1], p)
