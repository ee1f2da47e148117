# SPDX-License-Identifier: Apache-2.0
"""Intervals and sets of every method cover as often as they promise."""

import numpy as np
import pytest

from keras_bayesdrop import calibrate
from tests.calibrate.conformal_cases import CALIBRATION
from tests.calibrate.conformal_cases import LEVEL
from tests.calibrate.conformal_cases import REPETITIONS
from tests.calibrate.conformal_cases import TEST
from tests.calibrate.conformal_cases import TOLERANCE
from tests.calibrate.conformal_cases import accuracy
from tests.calibrate.conformal_cases import binary
from tests.calibrate.conformal_cases import classification
from tests.calibrate.conformal_cases import in_interval
from tests.calibrate.conformal_cases import in_set
from tests.calibrate.conformal_cases import mean_coverage
from tests.calibrate.conformal_cases import regression
from tests.calibrate.conformal_cases import sure_binary
from tests.calibrate.conformal_cases import sure_classification

HARD = [classification, binary]
SURE = [sure_classification, sure_binary]
WITHOUT_EMPTY = [
    {},
    {"method": "aps"},
    {"method": "raps"},
    {"method": "raps", "penalty": 0.5, "k_reg": 1},
    {"method": "lac"},
    {"method": "aps", "randomize": True},
    {"method": "raps", "randomize": True},
]
WITH_EMPTY = [
    {"method": "aps", "randomize": True, "allow_empty": True},
    {"method": "raps", "randomize": True, "allow_empty": True},
    {"method": "lac", "allow_empty": True},
]


@pytest.mark.parametrize("method", [None, "normalized", "absolute", "quantile"])
def test_intervals_cover(method):
    coverage = mean_coverage(regression, in_interval, method=method)
    assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)


def test_without_calibration_they_would_not_cover():
    rng = np.random.default_rng(0)
    p, y = regression(rng, 2000)
    lower, upper = p.interval(LEVEL)
    assert np.mean((lower <= y) & (y <= upper)) < 0.5


def test_the_cases_lie_on_both_sides_of_the_level():
    rng = np.random.default_rng(0)
    for case in HARD:
        assert accuracy(*case(rng, 2000)) < 0.75
    for case in SURE:
        assert accuracy(*case(rng, 2000)) > 0.95


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("options", WITHOUT_EMPTY + WITH_EMPTY)
def test_sets_cover_exactly_where_the_accuracy_is_below_the_level(
    case, options
):
    coverage = mean_coverage(case, in_set, **options)
    assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)


@pytest.mark.parametrize("case", SURE)
@pytest.mark.parametrize("options", WITHOUT_EMPTY)
def test_sets_cover_at_least_where_the_accuracy_is_above_it(case, options):
    coverage = mean_coverage(case, in_set, **options)
    assert coverage > LEVEL - TOLERANCE


@pytest.mark.parametrize("case", SURE)
@pytest.mark.parametrize("options", WITH_EMPTY)
def test_sets_that_may_be_empty_cover_exactly_there_too(case, options):
    coverage = mean_coverage(case, in_set, **options)
    assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)


def test_every_output_covers():
    rng = np.random.default_rng(0)
    result = []
    for _ in range(REPETITIONS):
        p, y = regression(rng, CALIBRATION + TEST, outputs=(2,))
        y[:, 1] *= 10
        fit = calibrate.conformal(y[:CALIBRATION], p[:CALIBRATION], LEVEL)
        assert fit.threshold.shape == (2,)
        inside = in_interval(fit, p[CALIBRATION:], y[CALIBRATION:])
        result.append(inside.mean(axis=0))
    for each in np.mean(result, axis=0):
        assert each == pytest.approx(LEVEL, abs=TOLERANCE)
