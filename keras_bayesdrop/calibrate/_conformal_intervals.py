# SPDX-License-Identifier: Apache-2.0
"""Conformal intervals of numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.calibrate._checks import check_observation
from keras_bayesdrop.calibrate._checks import check_outputs
from keras_bayesdrop.calibrate._conformal_cells import calibrate_threshold
from keras_bayesdrop.calibrate._conformal_cells import read_threshold
from keras_bayesdrop.calibrate._conformal_cells import row_thresholds
from keras_bayesdrop.calibrate._conformal_groups import Groups
from keras_bayesdrop.calibrate._conformal_groups import read_groups
from keras_bayesdrop.calibrate._plain import Plain
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets

INTERVAL_METHODS = ("normalized", "absolute", "quantile")


@dataclass(frozen=True, eq=False)
class ConformalIntervals(Plain):
    """Calibrated intervals, as `calibrate.conformal` returns them.

    The object holds only the values below. `to_dict` and `from_dict` convert
    it for JSON, and it can be pickled.

    Attributes:
        level: Float in `(0, 1)`. Probability of covering a new target.
        method: `"normalized"`, `"absolute"` or `"quantile"`.
        threshold: Array of the shape of the outputs. Distance of the ends of
            an interval from the mean, in the unit of the scores; for
            `"quantile"` the shift of both ends. With `groups` a first axis
            runs over groups. Infinite where there were too few rows.
        num_rows: Number of calibration rows.
        groups: Tuple of the groups that have a threshold each, or `None`.
    """

    level: float
    method: str
    threshold: Float64Array
    num_rows: int
    groups: Groups | None = None

    def __post_init__(self) -> None:
        """Checks the fields and converts the threshold to an array."""
        check_choice(self.method, "method", INTERVAL_METHODS)
        groups = read_groups(self.groups)
        threshold = read_threshold(self.threshold, groups, classes=None)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "threshold", threshold)

    def intervals(
        self, prediction: Predictive, groups: npt.ArrayLike | None = None
    ) -> tuple[Float64Array, Float64Array]:
        """Returns an interval for each row and output.

        Args:
            prediction: `Predictive` of numbers, computed in the same way as
                the one used for calibration.
            groups: Group of each row, `[rows]`, if the calibration has groups.
                A group that the calibration has not seen is an error.

        Returns:
            Arrays `(lower, upper)`, each `[rows, outputs]`.
        """
        check_observation(prediction, ("number",))
        outputs = self.threshold if self.groups is None else self.threshold[0]
        check_outputs(prediction, outputs, axes=0)
        threshold = row_thresholds(
            self.threshold, self.groups, groups, len(prediction)
        )
        if self.method == "quantile":
            lower, upper = prediction.interval(self.level)
            low = lower - threshold
            high = upper + threshold
            # A negative threshold shrinks an interval, at most to a point.
            crossed = low > high
            middle = (low[crossed] + high[crossed]) / 2
            low[crossed] = middle
            high[crossed] = middle
            return low, high
        mean = prediction.mean.astype(np.float64)
        reach = threshold * interval_scale(prediction, self.method)
        return mean - reach, mean + reach


def calibrate_intervals(
    p: Predictive,
    y: npt.ArrayLike,
    level: float,
    method: str,
    groups: npt.NDArray[Any] | None,
) -> ConformalIntervals:
    """Returns intervals whose thresholds are calibrated on targets.

    Args:
        p: Prediction of numbers.
        y: Targets.
        level: Level in (0, 1).
        method: One of `INTERVAL_METHODS`.
        groups: Group of each row, or `None`.
    """
    target = regression_targets(p.mean, y)
    threshold, names = calibrate_threshold(
        interval_scores(p, target, level, method),
        level,
        groups,
        labels=None,
        num_classes=1,
        consequence="intervals of these groups are infinite.",
    )
    return ConformalIntervals(
        level=level,
        method=method,
        threshold=threshold,
        num_rows=len(p),
        groups=names,
    )


def interval_scale(prediction: Predictive, method: str) -> Float64Array:
    """Returns the unit of the residuals, `[rows, outputs]`."""
    if method == "absolute":
        return np.ones(prediction.mean.shape)
    scale = np.sqrt(prediction.total, dtype=np.float64)
    if not np.all(scale > 0):
        raise BayesdropError(
            "Cannot divide residuals by the standard deviation. Expected a "
            f"positive one in every row. Received: {np.sum(scale <= 0)} that "
            "are zero. Use method='absolute', or a `noise_precision`."
        )
    return scale


def interval_scores(
    prediction: Predictive, y: Float64Array, level: float, method: str
) -> Float64Array:
    """Returns the score of each target, `[rows, outputs]`.

    A large score means that the target fits its prediction badly.
    """
    if method == "quantile":
        lower, upper = prediction.interval(level)
        return np.maximum(lower - y, y - upper)
    return np.abs(y - prediction.mean) / interval_scale(prediction, method)
