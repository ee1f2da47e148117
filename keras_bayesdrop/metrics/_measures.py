# SPDX-License-Identifier: Apache-2.0
"""Every metric that fits a prediction, with its resampled form.

The values are those of the public functions. The monitor of training and the
evaluation of a model both measure here.
"""

import functools
from collections.abc import Callable
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.metrics import _statistics
from keras_bayesdrop.metrics._calibration_curve import LEVELS
from keras_bayesdrop.metrics._calibration_curve import CalibrationCurve
from keras_bayesdrop.metrics._calibration_curve import first_levels
from keras_bayesdrop.metrics._calibration_errors import bin_edges
from keras_bayesdrop.metrics._calibration_errors import bin_numbers
from keras_bayesdrop.metrics._calibration_errors import (
    expected_calibration_error,
)
from keras_bayesdrop.metrics._crps import crps_values
from keras_bayesdrop.metrics._inputs import top_label
from keras_bayesdrop.metrics._intervals import interval_scores
from keras_bayesdrop.metrics._ranking import aurc
from keras_bayesdrop.metrics._ranking import excess_aurc
from keras_bayesdrop.metrics._ranking import uncertainty_auroc
from keras_bayesdrop.metrics._regression import bounds
from keras_bayesdrop.metrics._scores import brier_values
from keras_bayesdrop.metrics._scores import root_mean_squared_error
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of
from keras_bayesdrop.predictive.sample_noise import knows_noise

_BINS = 15


@dataclass(frozen=True)
class Measure:
    """A metric of a prediction.

    Attributes:
        value: The metric.
        statistic: The metric as a function of the counts of rows.
    """

    value: float
    statistic: _statistics.Statistic


class Undefined(Exception):
    """Raised with the reason why a metric is not defined."""


class _Judged:
    """A prediction beside the truth."""

    def __init__(self, y: npt.ArrayLike, p: Predictive, level: float) -> None:
        self.y = y
        self.p = p
        self.level = level

    def by_row(self, values: npt.ArrayLike) -> Float64Array:
        """Returns the mean of the values of each row, `[rows]`."""
        array = np.asarray(values, np.float64)
        return np.asarray(array.reshape(len(self.p), -1).mean(axis=1))

    @functools.cached_property
    def losses(self) -> npt.NDArray[Any]:
        """Squared errors, or flags of wrong labels, `[rows, ...]`."""
        return observation_of(self.p).losses(self.p, self.y)

    @functools.cached_property
    def uncertainty(self) -> Float64Array:
        """All uncertainty of each output or label, `[rows, ...]`."""
        name = observation_of(self.p).total
        return np.asarray(getattr(self.p, name), np.float64)

    @functools.cached_property
    def errors(self) -> Float64Array:
        """Absolute errors of numbers, `[rows, outputs]`."""
        return np.asarray(np.sqrt(self.losses))

    @functools.cached_property
    def ends(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Ends of the intervals, and the targets."""
        return bounds(self.p, self.y, self.level)

    @functools.cached_property
    def top(self) -> tuple[Float64Array, Float64Array]:
        """Confidence in the likeliest label, and 1 if it is right."""
        confidence, right = top_label(self.y, self.p)
        rows = len(self.p)
        return (
            confidence.reshape(rows, -1),
            right.reshape(rows, -1).astype(np.float64),
        )


def _mean(values: npt.ArrayLike) -> Measure:
    array = np.asarray(values)
    value = float(np.mean(array, dtype=np.float64))
    return Measure(value, _statistics.Mean(array))


def _log_likelihood(judged: _Judged) -> Measure:
    numbers = judged.p.head.observation == "number"
    if numbers and not knows_noise(judged.p):
        raise Undefined("the noise of observations is not known")
    try:
        return _mean(-np.asarray(judged.p.log_likelihood(judged.y)))
    except MissingSamplesError:
        raise Undefined("the samples are not kept") from None


def _aurc(judged: _Judged) -> Measure:
    loss = judged.by_row(judged.losses)
    rows = judged.by_row(judged.uncertainty)
    return Measure(aurc(loss, rows), _statistics.Aurc(loss, rows))


def _excess_aurc(judged: _Judged) -> Measure:
    loss = judged.by_row(judged.losses)
    rows = judged.by_row(judged.uncertainty)
    return Measure(excess_aurc(loss, rows), _statistics.ExcessAurc(loss, rows))


def _quantity(name: str) -> Callable[[_Judged], Measure]:
    def measure(judged: _Judged) -> Measure:
        try:
            return _mean(getattr(judged.p, name))
        except MissingSamplesError:
            raise Undefined("the samples are not kept") from None

    return measure


# Numbers.


def _rmse(judged: _Judged) -> Measure:
    value = root_mean_squared_error(judged.y, judged.p)
    return Measure(value, _statistics.Mean(judged.losses, root=True))


def _coverage(judged: _Judged) -> Measure:
    lower, upper, target = judged.ends
    return _mean((lower <= target) & (target <= upper))


def _width(judged: _Judged) -> Measure:
    lower, upper, _ = judged.ends
    return _mean(upper - lower)


def _interval_score(judged: _Judged) -> Measure:
    return _mean(interval_scores(*judged.ends, judged.level))


def _area(judged: _Judged) -> Measure:
    levels = np.asarray(LEVELS)
    first = first_levels(judged.y, judged.p, levels)
    count = np.bincount(first.reshape(-1), minlength=levels.size + 1)
    curve = CalibrationCurve(levels, np.cumsum(count)[:-1] / first.size)
    return Measure(curve.area, _statistics.CoverageArea(first, levels))


def _sharpness(judged: _Judged) -> Measure:
    total = np.asarray(judged.p.total, np.float64)
    value = float(np.sqrt(np.mean(total)))
    return Measure(value, _statistics.Mean(total, root=True))


def _correlation(judged: _Judged) -> Measure:
    rows = judged.by_row(judged.uncertainty)
    statistic = _statistics.RankCorrelation(judged.by_row(judged.errors), rows)
    value = float(statistic(np.ones((1, rows.size)))[0])
    if np.isnan(value):
        raise Undefined("all rows have the same error or uncertainty")
    return Measure(value, statistic)


def _aleatoric(judged: _Judged) -> Measure:
    if not knows_noise(judged.p):
        raise Undefined("the noise of observations is not known")
    return _mean(judged.p.aleatoric)


# Classes and labels.


def _overconfidence(judged: _Judged) -> Measure:
    confidence, right = judged.top
    return _mean(confidence - right)


def _calibration_error(judged: _Judged) -> Measure:
    confidence, right = judged.top
    bins = bin_numbers(confidence, bin_edges(confidence, _BINS, "width"))
    return Measure(
        expected_calibration_error(judged.y, judged.p, _BINS),
        _statistics.BinnedGaps(bins, confidence, right, _BINS),
    )


def _mass_calibration_error(judged: _Judged) -> Measure:
    confidence, right = judged.top
    return Measure(
        expected_calibration_error(judged.y, judged.p, _BINS, "mass"),
        _statistics.MassGaps(confidence, right, _BINS),
    )


def _auroc(judged: _Judged) -> Measure:
    wrong = np.asarray(judged.losses, bool)
    if wrong.all() or not wrong.any():
        share = "all" if wrong.any() else "none"
        raise Undefined(f"{share} of the labels are predicted wrong")
    value = uncertainty_auroc(wrong.reshape(-1), judged.uncertainty.reshape(-1))
    return Measure(value, _statistics.Auroc(wrong, judged.uncertainty))


_NUMBERS: dict[str, Callable[[_Judged], Measure]] = {
    "root_mean_squared_error": _rmse,
    "mean_absolute_error": lambda judged: _mean(judged.errors),
    "negative_log_likelihood": _log_likelihood,
    "crps": lambda judged: _mean(crps_values(judged.y, judged.p)),
    "interval_coverage": _coverage,
    "interval_width": _width,
    "interval_score": _interval_score,
    "miscalibration_area": _area,
    "sharpness": _sharpness,
    "error_correlation": _correlation,
    "aurc": _aurc,
    "excess_aurc": _excess_aurc,
    "epistemic": _quantity("epistemic"),
    "aleatoric": _aleatoric,
}
_LABELS: dict[str, Callable[[_Judged], Measure]] = {
    "accuracy": lambda judged: _mean(judged.top[1]),
    "confidence": lambda judged: _mean(judged.top[0]),
    "overconfidence": _overconfidence,
    "negative_log_likelihood": _log_likelihood,
    "brier_score": lambda judged: _mean(brier_values(judged.y, judged.p)),
    "expected_calibration_error": _calibration_error,
    "mass_calibration_error": _mass_calibration_error,
    "uncertainty_auroc": _auroc,
    "aurc": _aurc,
    "excess_aurc": _excess_aurc,
    "predictive_entropy": _quantity("predictive_entropy"),
    "expected_entropy": _quantity("expected_entropy"),
    "mutual_information": _quantity("mutual_information"),
    "epistemic": _quantity("epistemic"),
}


def measures_of(
    y: npt.ArrayLike,
    p: Predictive,
    level: float = 0.9,
    names: Collection[str] | None = None,
) -> tuple[dict[str, Measure], dict[str, str]]:
    """Computes the metrics that fit a prediction.

    Args:
        y: Labels or targets.
        p: The prediction.
        level: Probability of intervals.
        names: The metrics; all that fit by default.

    Returns:
        The metrics by name; and of those that are not defined the reason.
    """
    numbers = p.head.observation == "number"
    judged = _Judged(y, p, level)
    measures, undefined = {}, {}
    for name, measure in (_NUMBERS if numbers else _LABELS).items():
        if names is not None and name not in names:
            continue
        try:
            measures[name] = measure(judged)
        except Undefined as reason:
            undefined[name] = str(reason)
    return measures, undefined
