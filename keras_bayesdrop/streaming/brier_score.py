# SPDX-License-Identifier: Apache-2.0
"""The Brier score, batch by batch."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.streaming._batches import StreamingMean
from keras_bayesdrop.streaming._batches import mask_of
from keras_bayesdrop.streaming._batches import probabilities_and_labels


@export("keras_bayesdrop.streaming.BrierScore")
class BrierScore(StreamingMean):
    """Brier score as a Keras metric.

        Brier = mean{ sum{ (p[i, c] - [y[i] == c])**2 : c } : i }

    For one probability per label `mean{ (p[i] - y[i])**2 : i }`. The same
    number as `keras_bayesdrop.metrics.brier_score` of all batches together.
    During `fit` it is about a single forward pass, not about the mean of Monte
    Carlo samples: for those use the function on a `Predictive`.

    Args:
        from_logits: Bool. Whether the model's outputs come before the softmax
            or sigmoid. Defaults to `False`.
        name: Name of the metric. Defaults to `"brier_score"`.
        dtype: Dtype to compute in.

    Example:
    ```python
    model.compile(
        "adam",
        "sparse_categorical_crossentropy",
        metrics=[keras_bayesdrop.streaming.BrierScore()],
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
