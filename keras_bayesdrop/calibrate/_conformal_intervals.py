# SPDX-License-Identifier: Apache-2.0
"""Conformal intervals of a regression."""

from dataclasses import dataclass

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.calibrate._checks import check_outputs
from keras_bayesdrop.calibrate._checks import check_predictive
from keras_bayesdrop.calibrate._plain import Plain
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive

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
            `"quantile"` the shift of both ends.
        num_rows: Number of calibration rows.
    """

    level: float
    method: str
    threshold: Float64Array
    num_rows: int

    def __post_init__(self) -> None:
        """Checks the method and converts the threshold to an array."""
        check_choice(self.method, "method", INTERVAL_METHODS)
        array = np.asarray(self.threshold, dtype=np.float64)
        object.__setattr__(self, "threshold", array)

    def intervals(
        self, prediction: Predictive
    ) -> tuple[Float64Array, Float64Array]:
        """Returns an interval for each row and output.

        Args:
            prediction: `Predictive` of a regression, computed in the same way
                as the one used for calibration.

        Returns:
            Arrays `(lower, upper)`, each `[rows, outputs]`.
        """
        check_predictive(prediction, ("regression",))
        check_outputs(prediction, self.threshold, axes=0)
        if self.method == "quantile":
            lower, upper = prediction.interval(self.level)
            low = lower - self.threshold
            high = upper + self.threshold
            # A negative threshold shrinks an interval, at most to a point.
            middle = (low + high) / 2
            return np.minimum(low, middle), np.maximum(high, middle)
        mean = prediction.mean.astype(np.float64)
        reach = self.threshold * interval_scale(prediction, self.method)
        return mean - reach, mean + reach


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
