# SPDX-License-Identifier: Apache-2.0
"""Sums over batches, and the labels and outputs of a batch as tensors."""

from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError


class WeightedMean(keras.metrics.Metric):
    """Weighted mean over all labels of all batches."""

    def __init__(self, name: str, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.sum = self.add_variable((), "zeros", name="sum")
        self.weight = self.add_variable((), "zeros", name="weight")

    def add_values(self, values: Any, sample_weight: Any, mask: Any) -> None:
        """Adds one number per label, `[rows, ...]`."""
        weights = label_weights(values, sample_weight, mask)
        self.sum.assign_add(keras.ops.sum(weights * values))
        self.weight.assign_add(keras.ops.sum(weights))

    def result(self) -> Any:
        """Returns the mean of all batches; 0 before the first."""
        return keras.ops.divide_no_nan(self.sum, self.weight)


class LabelMetric(keras.metrics.Metric):
    """A metric of probabilities and labels, smaller for better models.

    A subclass defines `add_labels`.

    Args:
        from_logits: Bool. `True` if the outputs are logits.
        name: Name of the metric.
        dtype: Dtype to compute in.
    """

    def __init__(self, from_logits: bool, name: str, dtype: Any) -> None:
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
        self.add_labels(p, labels, sample_weight, mask)

    def add_labels(
        self, p: Any, labels: Any, sample_weight: Any, mask: Any
    ) -> None:
        """Adds the probabilities and labels of a batch.

        Args:
            p: Probabilities `[rows, ..., classes]`.
            labels: Zeros and ones of the same shape.
            sample_weight: Optional weights `[rows]`.
            mask: Optional mask of the outputs; a masked label weighs 0.
        """
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "from_logits": self.from_logits}


def label_weights(values: Any, sample_weight: Any, mask: Any) -> Any:
    """Returns weights of the shape of `values`; a masked label weighs 0."""
    weights = keras.ops.ones_like(values)
    for factor in (sample_weight, mask):
        if factor is None:
            continue
        factor = keras.ops.cast(factor, values.dtype)
        if len(factor.shape) == len(values.shape) + 1:
            factor = keras.ops.squeeze(factor, -1)
        while len(factor.shape) < len(values.shape):
            factor = keras.ops.expand_dims(factor, -1)
        weights = weights * factor
    return weights


def mask_of(y_pred: Any) -> Any:
    """Returns the mask that Keras attaches to outputs, or `None`."""
    return getattr(y_pred, "_keras_mask", None)


def with_outputs_axis(y_true: Any, y_pred: Any, dtype: Any) -> tuple[Any, Any]:
    """Returns labels and outputs as tensors, with a last axis of outputs.

    Outputs and labels `[rows]` become `[rows, 1]`.
    """
    y_pred = keras.ops.convert_to_tensor(y_pred, dtype=dtype)
    y_true = keras.ops.convert_to_tensor(y_true)
    if len(y_pred.shape) == 1:
        y_pred = keras.ops.expand_dims(y_pred, -1)
    if len(y_true.shape) == len(y_pred.shape) - 1:
        y_true = keras.ops.expand_dims(y_true, -1)
    return y_true, y_pred


def probabilities_and_labels(
    y_true: Any, y_pred: Any, from_logits: bool, dtype: Any
) -> tuple[Any, Any]:
    """Returns probabilities, and labels of the same shape as zeros and ones.

    A last axis longer than 1 runs over classes; one of length 1 holds the
    probability of the label 1.

    Args:
        y_true: Class numbers, one-hot labels, or zeros and ones.
        y_pred: Outputs `[rows, ..., classes]`.
        from_logits: `True` if the outputs are logits.
        dtype: Dtype to compute in.
    """
    y_true, y_pred = with_outputs_axis(y_true, y_pred, dtype)
    width = y_pred.shape[-1]
    if width is None or not _labels_fit(y_true, y_pred):
        raise BayesdropError(
            "Labels and outputs do not fit. Expected outputs "
            "[rows, ..., classes], and class numbers or one-hot labels for "
            f"them. Received: y_true.shape={tuple(y_true.shape)}, "
            f"y_pred.shape={tuple(y_pred.shape)}"
        )
    if from_logits:
        link = keras.ops.sigmoid if width == 1 else keras.ops.softmax
        y_pred = link(y_pred)
    if width == 1 or y_true.shape[-1] == width:
        return y_pred, keras.ops.cast(y_true, dtype)
    numbers = keras.ops.cast(keras.ops.squeeze(y_true, -1), "int32")
    return y_pred, keras.ops.one_hot(numbers, width, dtype=dtype)


def top_label(p: Any, labels: Any) -> tuple[Any, Any]:
    """Returns confidence in the most likely label, and where it is right."""
    if p.shape[-1] == 1:
        p, is_one = keras.ops.squeeze(p, -1), keras.ops.squeeze(labels, -1)
        right = keras.ops.equal(p >= 0.5, is_one >= 0.5)
        return keras.ops.maximum(p, 1.0 - p), right
    right = keras.ops.equal(
        keras.ops.argmax(p, axis=-1), keras.ops.argmax(labels, axis=-1)
    )
    return keras.ops.max(p, axis=-1), right


def _labels_fit(y_true: Any, y_pred: Any) -> bool:
    """Returns `True` if known shapes match without broadcasting."""
    if len(y_true.shape) != len(y_pred.shape):
        return False
    if y_true.shape[-1] not in (1, y_pred.shape[-1]):
        return False
    return all(
        label is None or output is None or label == output
        for label, output in zip(
            y_true.shape[:-1], y_pred.shape[:-1], strict=True
        )
    )
