# SPDX-License-Identifier: Apache-2.0
"""Checks of predictions to calibrate."""

from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive


def check_predictive(prediction: Any, tasks: tuple[str, ...]) -> Predictive:
    """Returns a prediction if it is of one of the tasks, and not empty."""
    if not isinstance(prediction, Predictive):
        raise BayesdropError(
            "Invalid value for argument `prediction`. Expected a "
            f"`Predictive`. Received: {type(prediction).__name__}"
        )
    if prediction.task not in tasks:
        raise BayesdropError(
            f"Not defined for task={prediction.task!r}. Expected "
            f"{' or '.join(map(repr, tasks))}. Received: "
            f"task={prediction.task!r}"
        )
    if prediction.mean.size == 0:
        raise BayesdropError(
            "Cannot calibrate on nothing. Expected at least one example. "
            f"Received: shape {prediction.mean.shape}"
        )
    return prediction


def check_outputs(
    prediction: Predictive, thresholds: Float64Array, axes: int
) -> None:
    """Raises unless there is a threshold for each output.

    Args:
        prediction: What is to get intervals or sets.
        thresholds: Array of the shape of the outputs.
        axes: Number of axes at the end that are no outputs.
    """
    shape = prediction.mean.shape[1 : prediction.mean.ndim - axes]
    if shape != np.shape(thresholds):
        raise BayesdropError(
            "The prediction does not fit the calibration. Expected outputs "
            f"of shape {np.shape(thresholds)}. Received: outputs of shape "
            f"{shape}"
        )
