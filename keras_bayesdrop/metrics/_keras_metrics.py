# SPDX-License-Identifier: Apache-2.0
"""Keras metrics for `compile`, which accumulate over batches.

Importing this module registers the classes with Keras, so that saved models
with these metrics load. The package imports it where Keras is installed.
"""

from statistics import NormalDist
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._keras_batches import WeightedMean
from keras_bayesdrop.metrics._keras_batches import label_weights
from keras_bayesdrop.metrics._keras_batches import mask_of
from keras_bayesdrop.metrics._keras_batches import probabilities_and_labels
from keras_bayesdrop.metrics._keras_batches import top_label
from keras_bayesdrop.metrics._keras_batches import with_outputs_axis
from keras_bayesdrop.metrics._regression import check_level


@export("keras_bayesdrop.metrics.BrierScore")
class BrierScore(WeightedMean):
    """Brier score as a Keras metric.

        Brier = mean{ sum{ (p[i, c] - [y[i] == c])**2 : c } : i }

    With one probability per label it is `mean{ (p[i] - y[i])**2 : i }`. It
    equals `keras_bayesdrop.metrics.brier_score` of all batches together.
    During `fit` it measures a single forward pass, not the mean of Monte Carlo
    samples: for those use the function on a `Predictive`.

    Args:
        from_logits: Bool. `True` if the outputs are logits, without softmax or
            sigmoid. Defaults to `False`.
        name: Name of the metric. Defaults to `"brier_score"`.
        dtype: Dtype to compute in.

    Example:
    ```python
    model.compile(
        "adam",
        "sparse_categorical_crossentropy",
        metrics=[keras_bayesdrop.metrics.BrierScore()],
    )
    ```
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "brier_score",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.from_logits = from_logits
        self._direction = "down"

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Adds a batch.

        Args:
            y_true: Class numbers `[rows]`, or one-hot `[rows, classes]`;
                zeros and ones if there is one output.
            y_pred: Outputs `[rows, classes]` or `[rows, 1]`.
            sample_weight: Optional weights `[rows]`.
        """
        mask = mask_of(y_pred)
        p, labels = probabilities_and_labels(
            y_true, y_pred, self.from_logits, self.dtype
        )
        score = keras.ops.sum(keras.ops.square(p - labels), axis=-1)
        self.add_values(score, sample_weight, mask)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "from_logits": self.from_logits}


@export("keras_bayesdrop.metrics.ExpectedCalibrationError")
class ExpectedCalibrationError(keras.metrics.Metric):
    """Expected calibration error as a Keras metric.

    With `B[b]` the labels whose confidence lies in bin `b` of equal width,
    over all batches since the last reset, and `w` their weights:

        ECE = sum{ |sum{ w[i] * (right[i] - confidence[i]) : i in B[b] }| : b }
              / sum{ w[i] : i }

    It equals `keras_bayesdrop.metrics.expected_calibration_error` of all
    batches together, since it adds up the bins and not the errors of batches.
    During `fit` it measures a single forward pass, not the mean of Monte Carlo
    samples: for those use the function on a `Predictive`.

    Args:
        num_bins: Int, at least 1. Defaults to `15`.
        from_logits: Bool. `True` if the outputs are logits, without softmax or
            sigmoid. Defaults to `False`.
        name: Name of the metric. Defaults to `"expected_calibration_error"`.
        dtype: Dtype to compute in.

    Example:
    ```python
    model.compile(
        "adam",
        "sparse_categorical_crossentropy",
        metrics=[keras_bayesdrop.metrics.ExpectedCalibrationError()],
    )
    ```

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    """

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "expected_calibration_error",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.num_bins = check_positive_int(num_bins, "num_bins")
        self.from_logits = from_logits
        self._direction = "down"
        self.gaps = self.add_variable((self.num_bins,), "zeros", name="gaps")
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Adds a batch.

        Args:
            y_true: Class numbers `[rows]`, or one-hot `[rows, classes]`;
                zeros and ones if there is one output.
            y_pred: Outputs `[rows, classes]` or `[rows, 1]`.
            sample_weight: Optional weights `[rows]`.
        """
        mask = mask_of(y_pred)
        p, labels = probabilities_and_labels(
            y_true, y_pred, self.from_logits, self.dtype
        )
        confidence, right = top_label(p, labels)
        weights = label_weights(confidence, sample_weight, mask)
        gap = weights * (keras.ops.cast(right, self.dtype) - confidence)
        bins = keras.ops.zeros_like(confidence, dtype="int32")
        for edge in np.linspace(0.0, 1.0, self.num_bins + 1)[1:-1]:
            bins += keras.ops.cast(confidence > edge, "int32")
        self.gaps.assign_add(
            keras.ops.segment_sum(
                keras.ops.reshape(gap, (-1,)),
                keras.ops.reshape(bins, (-1,)),
                num_segments=self.num_bins,
            )
        )
        self.total.assign_add(keras.ops.sum(weights))

    def result(self) -> Any:
        """Returns the error of all batches; 0 before the first."""
        size = keras.ops.sum(keras.ops.abs(self.gaps))
        return keras.ops.divide_no_nan(size, self.total)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_bins": self.num_bins,
            "from_logits": self.from_logits,
        }


@export("keras_bayesdrop.metrics.IntervalCoverage")
class IntervalCoverage(WeightedMean):
    """Fraction of targets inside Gaussian intervals, as a Keras metric.

        coverage = mean{ |y[i] - m[i]| <= z * std[i] : i },
        z = Phi^-1((1 + level) / 2)

    Without `noise_precision` the model has two outputs for each target, means
    and log variances, as for `HeteroscedasticGaussianNLL`. With it the model
    has one output for each target, and `std = 1 / sqrt(noise_precision)`, as
    for `GaussianNLL`. A coverage below `level` says that the noise is larger
    than the model predicts.

    The intervals contain the noise of a single forward pass, and not the
    uncertainty of the model. For both use
    `keras_bayesdrop.metrics.interval_coverage` on a `Predictive`.

    Args:
        level: Float in `(0, 1)`. Nominal coverage of the intervals. Defaults
            to `0.9`.
        noise_precision: Positive float, or `None` if the model gives log
            variances. Defaults to `None`.
        log_variance_limit: Positive float. Log variances are clipped to
            `[-limit, limit]`, as by `HeteroscedasticGaussianNLL` and the head
            `Heteroscedastic`. Defaults to `20.0`.
        name: Name of the metric. Defaults to `"interval_coverage"`.
        dtype: Dtype to compute in.

    Example:
    ```python
    model.compile(
        "adam",
        keras_bayesdrop.losses.HeteroscedasticGaussianNLL(),
        metrics=[keras_bayesdrop.metrics.IntervalCoverage(0.9)],
    )
    ```
    """

    def __init__(
        self,
        level: float = 0.9,
        noise_precision: float | None = None,
        name: str = "interval_coverage",
        dtype: Any = None,
        log_variance_limit: float = 20.0,
    ) -> None:
        self.level = check_level(level)
        self.noise_precision = (
            None
            if noise_precision is None
            else check_positive(noise_precision, "noise_precision")
        )
        self.log_variance_limit = check_positive(
            log_variance_limit, "log_variance_limit"
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
            mean, raw = keras.ops.split(y_pred, 2, axis=-1)
            limit = self.log_variance_limit
            log_variance = keras.ops.clip(raw, -limit, limit)
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
            "log_variance_limit": self.log_variance_limit,
        }
