# SPDX-License-Identifier: Apache-2.0
"""Calibration curve of a regression, and the area that it leaves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.metrics._regression import sample_array
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.mixture import normal_cdf
from keras_bayesdrop.predictive.sample_noise import knows_noise
from keras_bayesdrop.predictive.sample_noise import sample_precision

# Default levels of a curve: 0.01, 0.02, ..., 0.99.
LEVELS = tuple(percent / 100 for percent in range(1, 100))


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """Expected and observed coverage of central intervals.

    Attributes:
        expected: Array `[levels]` in `(0, 1)`, increasing.
        observed: Array `[levels]`. Fraction of targets inside the interval of
            that level. Where it is below `expected`, the intervals are too
            narrow.
    """

    expected: Float64Array
    observed: Float64Array

    @property
    def area(self) -> float:
        """Area between the curve and the diagonal, in `[0, 0.5]`.

            area = integral{ |observed(q) - q| : q from 0 to 1 }

        The curve is drawn through its points and the corners (0, 0), (1, 1).
        """
        return float(area_of(self.expected, self.observed))


@truth_first
def calibration_curve(
    y: npt.ArrayLike,
    prediction: Prediction,
    levels: Sequence[float] | None = None,
) -> CalibrationCurve:
    """Fraction of targets inside the central intervals of many levels.

        observed[q] = mean{ lower[i, q] <= y[i] <= upper[i, q] : i }

    with `lower` and `upper` of `Predictive.interval(q)`, over all rows and
    outputs. A calibrated regression covers each level `q` a fraction `q` of
    the time. With samples alone (no `noise_precision`, no learned noise) the
    intervals leave out the observation noise, and are too narrow for noisy
    data.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or samples
            `[T, rows, outputs]`.
        levels: Floats in `(0, 1)`, increasing. Defaults to 0.01, 0.02, ...,
            0.99.

    Returns:
        A `CalibrationCurve`.

    Example:
        >>> samples = np.linspace(-1.0, 1.0, 101)[:, None] * np.ones(4)
        >>> calibration_curve([0.0, 0.3, 0.5, 0.7], samples, [0.4]).observed
        array([0.5])

    References:
        - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263).
    """
    q = _check_levels(LEVELS if levels is None else levels)
    first = first_levels(y, prediction, q)
    count = np.bincount(first.reshape(-1), minlength=q.size + 1)
    return CalibrationCurve(q, np.cumsum(count)[: q.size] / first.size)


@truth_first
def miscalibration_area(
    y: npt.ArrayLike,
    prediction: Prediction,
    levels: Sequence[float] | None = None,
) -> float:
    """Area between the calibration curve and the diagonal.

        area = integral{ |observed(q) - q| : q from 0 to 1 }

    with the observed coverage of central intervals of level `q` (see
    `calibration_curve`). It is the counterpart of `expected_calibration_error`
    for a regression. It says nothing about the width of the intervals.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or samples
            `[T, rows, outputs]`.
        levels: Floats in `(0, 1)`, increasing. Defaults to 0.01, 0.02, ...,
            0.99.

    Returns:
        Float in `[0, 0.5]`; 0 is perfect.

    Example:
        >>> samples = np.linspace(-1.0, 1.0, 101)[:, None] * np.ones(4)
        >>> miscalibration_area([5.0, 5.0, 5.0, 5.0], samples)
        0.495

    References:
        - [Chung et al., 2021](https://arxiv.org/abs/2109.10254).
    """
    return calibration_curve(y, prediction, levels).area


def first_levels(
    y: npt.ArrayLike, prediction: Prediction, q: Float64Array
) -> npt.NDArray[np.intp]:
    """Returns the number of the first level whose interval holds a target.

    Intervals of higher levels contain those of lower ones, so the number says
    for every level whether the target is inside.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or samples.
        q: Increasing levels.

    Returns:
        Array `[rows, outputs]`; the number of levels if none holds it.
    """
    if not isinstance(prediction, Predictive):
        samples = sample_array(prediction)
        target = regression_targets(samples[0], y)
        return _by_quantiles(samples, target, q)
    check_regression(prediction)
    target = regression_targets(prediction.mean, y)
    if prediction.samples is not None:
        if knows_noise(prediction):
            return _by_rank(prediction, target, q)
        return _by_quantiles(prediction.samples, target, q)
    first = np.zeros(target.shape, np.intp)
    for level in q:
        lower, upper = prediction.interval(float(level))
        first += ~((lower <= target) & (target <= upper))
    return first


def area_of(expected: Float64Array, observed: Float64Array) -> Float64Array:
    """Returns the area between a curve and the diagonal.

    Args:
        expected: Array `[levels]`.
        observed: Array `[..., levels]`, of any number of curves.
    """
    q = np.concatenate([[0.0], expected, [1.0]])
    ends = np.zeros((*observed.shape[:-1], 1))
    gap = np.concatenate([ends, observed - expected, ends], axis=-1)
    left, right, width = gap[..., :-1], gap[..., 1:], np.diff(q)
    size = np.abs(left) + np.abs(right)
    # A segment that crosses the diagonal is two triangles.
    squares = left**2 + right**2
    crossed = np.divide(squares, size, out=np.zeros_like(size), where=size > 0)
    parts = np.where(left * right < 0, crossed, size)
    return np.asarray(np.sum(width * parts, axis=-1) / 2)


def _by_quantiles(
    samples: npt.NDArray[np.floating], y: Float64Array, q: Float64Array
) -> npt.NDArray[np.intp]:
    """Returns the first levels of intervals between quantiles of samples."""
    lower = np.quantile(samples, (1 - q) / 2, axis=0)
    upper = np.quantile(samples, (1 + q) / 2, axis=0)
    return np.asarray(np.sum((lower > y) | (y > upper), axis=0))


def _by_rank(
    p: Predictive, y: Float64Array, q: Float64Array
) -> npt.NDArray[np.intp]:
    """Returns the first levels of intervals of the mixture with noise.

    A target lies in the interval of a level if the distribution function at
    the target differs from one half by at most half the level. That takes one
    evaluation, instead of two quantiles for every level.
    """
    rank = np.zeros(y.shape)
    samples = sample_array(p)
    for number, sample in enumerate(samples):
        root = np.sqrt(sample_precision(p, number))
        rank += normal_cdf((y - sample) * root)
    reach = np.abs(2 * rank / len(samples) - 1)
    return np.asarray(np.searchsorted(q, reach, side="left"))


def _check_levels(levels: Sequence[float]) -> Float64Array:
    """Returns levels as an array, if they increase within (0, 1)."""
    q = np.asarray(levels)
    valid = q.ndim == 1 and q.size > 0 and q.dtype.kind == "f"
    if not valid or not (np.all((q > 0) & (q < 1)) and np.all(np.diff(q) > 0)):
        raise BayesdropError(
            "Invalid value for argument `levels`. Expected floats in (0, 1), "
            f"increasing. Received: levels={levels}"
        )
    return q.astype(np.float64)
