# SPDX-License-Identifier: Apache-2.0
"""Coverage of Gaussian intervals, batch by batch."""

from statistics import NormalDist
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._regression import check_level
from keras_bayesdrop.streaming._batches import StreamingMean
from keras_bayesdrop.streaming._batches import mask_of
from keras_bayesdrop.streaming._batches import with_outputs_axis


@export("keras_bayesdrop.streaming.IntervalCoverage")
class IntervalCoverage(StreamingMean):
    """Fraction of targets inside Gaussian intervals, as a Keras metric.

        coverage = mean{ |y[i] - m[i]| <= z * std[i] : i },
        z = Phi^-1((1 + level) / 2)

    Without `noise_precision` the model has two outputs for each target, means
    and log variances, as for `HeteroscedasticGaussianNLL`. With it, one, and
    `std = 1 / sqrt(noise_precision)`, as for `GaussianNLL`. A coverage below
    `level` says that the noise is larger than the model believes.

    It knows the noise only, of a single forward pass. For intervals with the
    model's own uncertainty use `keras_bayesdrop.metrics.interval_coverage` on
    a `Predictive`.

    Args:
        level: Float in `(0, 1)`. What the intervals promise to cover.
            Defaults to `0.9`.
        noise_precision: Positive float, or `None` if the model gives log
            variances. Defaults to `None`.
        name: Name of the metric. Defaults to `"interval_coverage"`.
        dtype: Dtype to compute in.

    Example:
    ```python
    model.compile(
        "adam",
        keras_bayesdrop.losses.HeteroscedasticGaussianNLL(),
        metrics=[keras_bayesdrop.streaming.IntervalCoverage(0.9)],
    )
    ```
    """

    def __init__(
        self,
        level: float = 0.9,
        noise_precision: float | None = None,
        name: str = "interval_coverage",
        dtype: Any = None,
    ) -> None:
        self.level = check_level(level)
        self.noise_precision = (
            None
            if noise_precision is None
            else check_positive(noise_precision, "noise_precision")
        )
        super().__init__(name=name, dtype=dtype)

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Adds a batch.

        Args:
            y_true: Targets `[rows, outputs]`.
            y_pred: Means `[rows, outputs]`, or means and log variances
                `[rows, 2 * outputs]`.
            sample_weight: Optional weights `[rows]`.
        """
        mask = mask_of(y_pred)
        y_true, y_pred = with_outputs_axis(y_true, y_pred, self.dtype)
        targets = keras.ops.cast(y_true, self.dtype)
        per_target = 1 if self.noise_precision is not None else 2
        if y_pred.shape[-1] != per_target * (targets.shape[-1] or 0):
            raise BayesdropError(
                f"Targets and outputs do not fit. Expected {per_target} "
                "outputs for each target (noise_precision="
                f"{self.noise_precision}). Received: y_true.shape="
                f"{tuple(targets.shape)}, y_pred.shape={tuple(y_pred.shape)}"
            )
        reach = NormalDist().inv_cdf((1 + self.level) / 2)
        if self.noise_precision is None:
            mean, log_variance = keras.ops.split(y_pred, 2, axis=-1)
            half_width = reach * keras.ops.exp(0.5 * log_variance)
        else:
            mean, half_width = y_pred, reach * self.noise_precision**-0.5
        inside = keras.ops.abs(targets - mean) <= half_width
        values = keras.ops.mean(keras.ops.cast(inside, self.dtype), axis=-1)
        self.add_values(values, sample_weight, mask)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "level": self.level,
            "noise_precision": self.noise_precision,
        }
