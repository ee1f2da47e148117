# SPDX-License-Identifier: Apache-2.0
"""Intervals with a guaranteed coverage, for regression."""

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
    """Intervals that were calibrated by `calibrate.conformal`.

    It holds nothing but the numbers below: `to_dict` and `from_dict` carry it
    through JSON, and it can be pickled.

    Attributes:
        level: Float in `(0, 1)`. Probability of covering a new target.
        method: `"normalized"`, `"absolute"` or `"quantile"`.
        threshold: Array of the shape of the outputs. How far an interval
            reaches, in the unit of the scores.
        num_rows: How many rows it was calibrated on.
    """

    level: float
    method: str
    threshold: Float64Array
    num_rows: int

    def __post_init__(self) -> None:
        """Brings the threshold into form."""
        check_choice(self.method, "method", INTERVAL_METHODS)
        array = np.asarray(self.threshold, dtype=np.float64)
        object.__setattr__(self, "threshold", array)

    def intervals(
        self, prediction: Predictive
    ) -> tuple[Float64Array, Float64Array]:
        """Returns an interval for each row and output.

        Args:
            prediction: `Predictive` of a regression, made in the same way as
                the one that was calibrated on.

        Returns:
            Arrays `(lower, upper)`, each `[rows, outputs]`.
        """
        check_predictive(prediction, ("regression",))
        check_outputs(prediction, self.threshold, axes=0)
        if self.method == "quantile":
            lower, upper = prediction.interval(self.level)
            low = lower - self.threshold
            high = upper + self.threshold
            # Intervals that are too wide shrink: to a point, at the most.
            middle = (low + high) / 2
            return np.minimum(low, middle), np.maximum(high, middle)
        mean = prediction.mean.astype(np.float64)
        reach = self.threshold * interval_scale(prediction, self.method)
        return mean - reach, mean + reach


def interval_scale(prediction: Predictive, method: str) -> Float64Array:
    """What the residual is measured in, `[rows, outputs]`."""
    if method == "absolute":
        return np.ones(prediction.mean.shape)
    scale = np.sqrt(prediction.total, dtype=np.float64)
    if not np.all(scale > 0):
        raise BayesdropError(
            "Cannot measure residuals by the standard deviation. Expected a "
            f"positive one in every row. Received: {np.sum(scale <= 0)} that "
            "are zero. Use method='absolute', or a `noise_precision`."
        )
    return scale


def interval_scores(
    prediction: Predictive, y: Float64Array, level: float, method: str
) -> Float64Array:
    """How badly each target fits its prediction, `[rows, outputs]`."""
    if method == "quantile":
        lower, upper = prediction.interval(level)
        return np.maximum(lower - y, y - upper)
    return np.abs(y - prediction.mean) / interval_scale(prediction, method)
