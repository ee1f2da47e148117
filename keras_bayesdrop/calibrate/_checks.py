# SPDX-License-Identifier: Apache-2.0
"""Checks of the predictions that are calibrated."""

from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive


def check_predictive(prediction: Any, tasks: tuple[str, ...]) -> Predictive:
    """Returns a prediction that has one of the tasks, and rows."""
    p = _check_type(prediction)
    if p.task not in tasks:
        raise BayesdropError(
            "This calibration is not defined for the task of the prediction. "
            f"Expected {' or '.join(map(repr, tasks))}. Received: "
            f"task={p.task!r}"
        )
    return _check_rows(p)


def check_observation(prediction: Any, kinds: tuple[str, ...]) -> Predictive:
    """Returns a prediction of observations of one of these kinds, with rows.

    Args:
        prediction: The argument.
        kinds: Values of `Head.observation`.
    """
    p = _check_type(prediction)
    if p.head.observation not in kinds:
        raise BayesdropError(
            "This calibration is not defined for the head of the prediction. "
            f"Expected the prediction of a {' or '.join(kinds)}. Received: "
            f"task={p.task!r}"
        )
    return _check_rows(p)


def _check_type(prediction: Any) -> Predictive:
    if not isinstance(prediction, Predictive):
        raise BayesdropError(
            "Invalid value for argument `prediction`. Expected a "
            f"`Predictive`. Received: {type(prediction).__name__}"
        )
    return prediction


def _check_rows(prediction: Predictive) -> Predictive:
    if prediction.mean.size == 0:
        raise BayesdropError(
            "Cannot calibrate without examples. Expected at least one example. "
            f"Received: shape {prediction.mean.shape}"
        )
    return prediction


def check_outputs(
    prediction: Predictive, thresholds: Float64Array, axes: int
) -> None:
    """Raises unless there is a threshold for each output.

    Args:
        prediction: Prediction to compute intervals or sets for.
        thresholds: Array of the shape of the outputs.
        axes: Number of last axes that are not outputs.
    """
    shape = prediction.mean.shape[1 : prediction.mean.ndim - axes]
    if shape != np.shape(thresholds):
        raise BayesdropError(
            "The prediction does not fit the calibration. Expected outputs "
            f"of shape {np.shape(thresholds)}. Received: outputs of shape "
            f"{shape}"
        )
