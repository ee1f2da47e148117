# SPDX-License-Identifier: Apache-2.0
"""Labels and targets, checked against the prediction they belong to."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError


def regression_targets(mean: Array, y: npt.ArrayLike) -> Float64Array:
    """Checks targets of a regression and gives them the shape of `mean`."""
    target = as_numbers("y", y).astype(np.float64)
    if not np.all(np.isfinite(target)):
        raise NonFiniteError(
            "Invalid value for argument `y`. Expected finite targets. "
            f"Received: {np.sum(~np.isfinite(target))} values that are NaN or "
            "infinite."
        )
    return _fit_shape(target, mean.shape, "y", f"{mean.shape}")


def class_labels(mean: Array, y: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Checks class labels and gives them as numbers.

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
    """Checks labels 0 and 1 and gives them the shape of `mean`."""
    labels = as_numbers("y", y)
    labels = _fit_shape(labels, mean.shape, "y", f"{mean.shape}")
    if not np.all((labels == 0) | (labels == 1)):
        raise BayesdropError(
            "Invalid labels in argument `y`. Expected only 0 and 1. Received: "
            f"values from {labels.min()} to {labels.max()}, of type "
            f"{labels.dtype}"
        )
    return np.asarray(labels == 1)


def sum_per_row(values: Float64Array) -> Float64Array:
    """Sums over all axes but the first."""
    return np.asarray(values.sum(axis=tuple(range(1, values.ndim))))


def _fit_shape(
    values: npt.NDArray[Any], shape: tuple[int, ...], name: str, expected: str
) -> npt.NDArray[Any]:
    """Adds or drops a last axis of length 1, if that gives `shape`."""
    if values.shape in (shape, (*shape, 1)) or (*values.shape, 1) == shape:
        return values.reshape(shape)
    raise BayesdropError(
        f"Invalid shape of argument `{name}`. Expected {expected}. Received: "
        f"{name}.shape={values.shape}"
    )
