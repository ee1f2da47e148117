# SPDX-License-Identifier: Apache-2.0
"""The expected calibration error, batch by batch."""

from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.streaming._batches import label_weights
from keras_bayesdrop.streaming._batches import mask_of
from keras_bayesdrop.streaming._batches import probabilities_and_labels


@export("keras_bayesdrop.streaming.ExpectedCalibrationError")
class ExpectedCalibrationError(keras.metrics.Metric):
    """Expected calibration error as a Keras metric.

    With `B[b]` the labels whose confidence lies in bin `b` of equal width,
    over all batches since the last reset, and `w` their weights:

        ECE = sum{ |sum{ w[i] * (right[i] - confidence[i]) : i in B[b] }| : b }
              / sum{ w[i] : i }

    The same number as `keras_bayesdrop.metrics.expected_calibration_error` of
    all batches together: the sums of the bins are kept, not the errors of the
    batches. During `fit` it is about a single forward pass, not about the mean
    of Monte Carlo samples: for those use the function on a `Predictive`.

    Args:
        num_bins: Int, at least 1. Defaults to `15`.
        from_logits: Bool. Whether the model's outputs come before the softmax
            or sigmoid. Defaults to `False`.
        name: Name of the metric. Defaults to `"expected_calibration_error"`.
        dtype: Dtype to compute in.

    Example:
    ```python
    model.compile(
        "adam",
        "sparse_categorical_crossentropy",
        metrics=[keras_bayesdrop.streaming.ExpectedCalibrationError()],
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
        confidence, right = _top_label(p, labels)
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


def _top_label(p: Any, labels: Any) -> tuple[Any, Any]:
    """Confidence in the likeliest label and whether it is right."""
    if p.shape[-1] == 1:
        p, is_one = keras.ops.squeeze(p, -1), keras.ops.squeeze(labels, -1)
        right = keras.ops.equal(p >= 0.5, is_one >= 0.5)
        return keras.ops.maximum(p, 1.0 - p), right
    right = keras.ops.equal(
        keras.ops.argmax(p, axis=-1), keras.ops.argmax(labels, axis=-1)
    )
    return keras.ops.max(p, axis=-1), right
