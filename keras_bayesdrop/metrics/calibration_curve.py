# SPDX-License-Identifier: Apache-2.0
"""How often intervals of a regression hold what they promise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.metrics._regression import sample_array
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.mixture import normal_cdf

# The levels of a curve if none are asked for: 0.01, 0.02, ..., 0.99.
_LEVELS = tuple(percent / 100 for percent in range(1, 100))


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """Expected and observed coverage of central intervals.

    Attributes:
        expected: Array `[levels]` in `(0, 1)`, increasing.
        observed: Array `[levels]`. Fraction of targets inside the interval of
            that level. Below `expected`: the intervals are too narrow.
    """

    expected: Float64Array
    observed: Float64Array

    @property
    def area(self) -> float:
        """Area between the curve and the diagonal, in `[0, 0.5]`.

            area = integral{ |observed(q) - q| : q from 0 to 1 }

        The curve is drawn through its points and the corners (0, 0), (1, 1).
        """
        q = np.concatenate([[0.0], self.expected, [1.0]])
        gap = np.concatenate([[0.0], self.observed - self.expected, [0.0]])
        left, right, width = gap[:-1], gap[1:], np.diff(q)
        size = np.abs(left) + np.abs(right)
        # A segment that crosses the diagonal is two triangles.
        squares = left**2 + right**2
        crossed = np.divide(
            squares, size, out=np.zeros_like(size), where=size > 0
        )
        parts = np.where(left * right < 0, crossed, size)
        return float(np.sum(width * parts) / 2)


def calibration_curve(
    prediction: Prediction,
    targets: npt.ArrayLike,
    levels: Sequence[float] | None = None,
) -> CalibrationCurve:
    """Fraction of targets inside the central intervals of many levels.

        observed[q] = mean{ lower[i, q] <= y[i] <= upper[i, q] : i }

    with `lower` and `upper` of `Predictive.interval(q)`, over all rows and
    outputs. The intervals of a calibrated regression hold their level. With
    samples alone (no `noise_precision`) they leave out the observation noise,
    and are too narrow for data that have any.

    Args:
        prediction: `Predictive` of a regression, or samples
            `[T, rows, outputs]`.
        targets: Array `[rows, outputs]`.
        levels: Floats in `(0, 1)`, increasing. Defaults to 0.01, 0.02, ...,
            0.99.

    Returns:
        A `CalibrationCurve`.

    Example:
        >>> samples = np.linspace(-1.0, 1.0, 101)[:, None] * np.ones(4)
        >>> calibration_curve(samples, [0.0, 0.3, 0.5, 0.7], [0.4]).observed
        array([0.5])

    References:
        - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263).
    """
    q = _check_levels(_LEVELS if levels is None else levels)
    if not isinstance(prediction, Predictive):
        samples = sample_array(prediction)
        y = regression_targets(samples[0], targets)
        return CalibrationCurve(q, _by_quantiles(samples, y, q))
    check_regression(prediction)
    y = regression_targets(prediction.mean, targets)
    if prediction.samples is not None:
        tau = prediction.noise_precision
        if tau is None:
            return CalibrationCurve(q, _by_quantiles(prediction.samples, y, q))
        return CalibrationCurve(q, _by_rank(prediction.samples, tau, y, q))
    inside = []
    for level in q:
        lower, upper = prediction.interval(float(level))
        inside.append(np.mean((lower <= y) & (y <= upper)))
    return CalibrationCurve(q, np.array(inside))


def _by_quantiles(
    samples: npt.NDArray[np.floating], y: Float64Array, q: Float64Array
) -> Float64Array:
    """Observed coverage of intervals between quantiles of samples."""
    lower = np.quantile(samples, (1 - q) / 2, axis=0)
    upper = np.quantile(samples, (1 + q) / 2, axis=0)
    inside = (lower <= y) & (y <= upper)
    return np.asarray(inside.reshape(q.size, -1).mean(axis=1))


def _by_rank(
    samples: npt.NDArray[np.floating],
    tau: float,
    y: Float64Array,
    q: Float64Array,
) -> Float64Array:
    """Observed coverage of intervals of the mixture with noise.

    A target lies in the interval of a level if the distribution function
    there does not differ from one half by more than half the level: one
    evaluation instead of two quantiles for every level.
    """
    rank = np.zeros(y.shape)
    for sample in samples:
        rank += normal_cdf((y - sample) * math.sqrt(tau))
    reach = np.sort(np.abs(2 * rank / len(samples) - 1), axis=None)
    return np.searchsorted(reach, q, side="right") / reach.size


def _check_levels(levels: Sequence[float]) -> Float64Array:
    q = np.asarray(levels)
    valid = q.ndim == 1 and q.size > 0 and q.dtype.kind == "f"
    if not valid or not (np.all((q > 0) & (q < 1)) and np.all(np.diff(q) > 0)):
        raise BayesdropError(
            "Invalid value for argument `levels`. Expected floats in (0, 1), "
            f"increasing. Received: levels={levels}"
        )
    return q.astype(np.float64)
