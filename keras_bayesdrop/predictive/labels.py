# SPDX-License-Identifier: Apache-2.0
"""Checks of labels and targets against a prediction."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError


def regression_targets(mean: Array, y: npt.ArrayLike) -> Float64Array:
    """Returns targets of a regression in the shape of `mean`, checked."""
    target = as_numbers("y", y).astype(np.float64)
    if not np.all(np.isfinite(target)):
        raise NonFiniteError(
            "Invalid value for argument `y`. Expected finite targets. "
            f"Received: {np.sum(~np.isfinite(target))} values that are NaN or "
            "infinite."
        )
    return _fit_shape(target, mean.shape, "y", f"{mean.shape}")


def class_labels(mean: Array, y: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Returns class labels as numbers, checked.

    Args:
        mean: Probabilities `[rows, ..., classes]`.
        y: Class numbers `[rows, ...]`, or one-hot of the shape of `mean`.

    Returns:
        Class numbers `[rows, ...]`.
    """
    labels = as_numbers("y", y)
    classes = mean.shape[-1]
    if labels.shape == mean.shape:
        hot = labels == 1
        if not np.all(hot | (labels == 0)) or not np.all(hot.sum(-1) == 1):
            raise BayesdropError(
                "Invalid one-hot labels in argument `y`. Expected one 1 and "
                "otherwise zeros along the last axis. Received: values from "
                f"{labels.min()} to {labels.max()}, sums from "
                f"{labels.sum(-1).min()} to {labels.sum(-1).max()}"
            )
        return np.asarray(np.argmax(hot, axis=-1))
    shape = mean.shape[:-1]
    expected = f"{shape} of class numbers or {mean.shape} of one-hot labels"
    labels = _fit_shape(labels, shape, "y", expected)
    inside = (labels >= 0) & (labels < classes)
    if not np.all(inside & (labels == np.floor(labels))):
        raise BayesdropError(
            "Invalid labels in argument `y`. Expected whole numbers from 0 to "
            f"{classes - 1}. Received: values from {labels.min()} to "
            f"{labels.max()}, of type {labels.dtype}"
        )
    return labels.astype(np.intp)


def binary_labels(mean: Array, y: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Returns labels 0 and 1 as bools in the shape of `mean`, checked."""
    labels = as_numbers("y", y)
    labels = _fit_shape(labels, mean.shape, "y", f"{mean.shape}")
    if not np.all((labels == 0) | (labels == 1)):
        raise BayesdropError(
            "Invalid labels in argument `y`. Expected only 0 and 1. Received: "
            f"values from {labels.min()} to {labels.max()}, of type "
            f"{labels.dtype}"
        )
    return np.asarray(labels == 1)


def label_probabilities(
    mean: Array, y: npt.ArrayLike, task: str
) -> Float64Array:
    """Returns the mean probability of each observed label."""
    p = np.clip(mean.astype(np.float64), 0.0, 1.0)
    if task == "binary":
        return np.where(binary_labels(p, y), p, 1.0 - p)
    labels = class_labels(p, y)
    return np.take_along_axis(p, labels[..., None], axis=-1)[..., 0]


def sum_per_row(values: Float64Array) -> Float64Array:
    """Returns the sums over all axes but the first."""
    return np.asarray(values.sum(axis=tuple(range(1, values.ndim))))


def _fit_shape(
    values: npt.NDArray[Any], shape: tuple[int, ...], name: str, expected: str
) -> npt.NDArray[Any]:
    """Returns `values` in `shape`, up to a last axis of length 1."""
    if values.shape in (shape, (*shape, 1)) or (*values.shape, 1) == shape:
        return values.reshape(shape)
    raise BayesdropError(
        f"Invalid shape of argument `{name}`. Expected {expected}. Received: "
        f"{name}.shape={values.shape}"
    )
