# SPDX-License-Identifier: Apache-2.0
"""What the metrics take: a `Predictive`, or plain arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels

Prediction = Predictive | npt.ArrayLike


def probabilities(prediction: Prediction) -> tuple[npt.NDArray[Any], str]:
    """Returns probabilities and the task they belong to.

    An array whose last of several axes is longer than 1 holds classes; any
    other holds one probability per label. Several independent labels per row
    cannot be told from classes: they need a `Predictive` that says so.
    """
    if isinstance(prediction, Predictive):
        if prediction.task == "regression":
            raise BayesdropError(
                "This metric is not defined for a regression. Expected "
                "task='classification' or 'binary'. Received: "
                "task='regression'"
            )
        return prediction.mean, prediction.task
    values = np.asarray(prediction)
    valid = values.ndim > 0 and values.dtype.kind in "fiub"
    if not valid or not np.all((values >= 0) & (values <= 1)):
        raise BayesdropError(
            "Invalid probabilities. Expected an array of numbers in [0, 1], "
            f"one row per example. Received: an array of type {values.dtype} "
            f"and shape {values.shape}"
        )
    classes = values.ndim > 1 and values.shape[-1] > 1
    return values, "classification" if classes else "binary"


def check_some(values: npt.NDArray[Any]) -> None:
    """Raises if there is nothing to compute a metric of."""
    if values.size == 0:
        raise BayesdropError(
            "Cannot compute a metric of nothing. Expected at least one "
            f"example. Received: shape {values.shape}"
        )


def finite_numbers(name: str, values: npt.ArrayLike) -> Float64Array:
    """Returns an array in float64, if all of it is finite."""
    array = as_numbers(name, values).astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise NonFiniteError(
            f"Invalid value for argument `{name}`. Expected finite numbers. "
            f"Received: {np.sum(~np.isfinite(array))} values that are NaN or "
            "infinite."
        )
    return array


def top_label(
    prediction: Prediction, labels: npt.ArrayLike
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Returns the confidence in the likeliest label, and whether it is right.

    Both are flat, with one entry per label.
    """
    values, task = probabilities(prediction)
    check_some(values)
    if task == "binary":
        p = values.astype(np.float64)
        right = (p >= 0.5) == binary_labels(values, labels)
        return np.maximum(p, 1.0 - p).ravel(), right.ravel()
    right = np.argmax(values, axis=-1) == class_labels(values, labels)
    return values.max(axis=-1).astype(np.float64).ravel(), right.ravel()
