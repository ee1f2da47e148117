# SPDX-License-Identifier: Apache-2.0
"""How good a prediction is, and the mean and its error over splits."""

import math
from collections.abc import Sequence

import numpy as np

from keras_bayesdrop.metrics import negative_log_likelihood
from keras_bayesdrop.metrics import root_mean_squared_error
from keras_bayesdrop.predictive import Predictive
from uci.data import Array

SCORES = ("rmse", "log_likelihood", "sample_absolute_error")


def scores(prediction: Predictive, y: Array) -> dict[str, float]:
    """Scores a prediction with samples, in units of `y`.

        rmse                  = sqrt(mean{ (y[i] - mean[i])^2 : i })
        log_likelihood        = mean{ log(p(y[i])) : i }
        sample_absolute_error = mean{ |y[i] - y[t, i]| : t, i }

    The last is not an error of the prediction, but what some papers print as
    if it were its RMSE.

    Args:
        prediction: Of one output.
        y: [rows].
    """
    samples = prediction.samples
    assert samples is not None
    distances = np.abs(samples.reshape(len(samples), -1) - y)  # [T, rows]
    return {
        "rmse": root_mean_squared_error(y, prediction),
        "log_likelihood": -negative_log_likelihood(y, prediction),
        "sample_absolute_error": float(np.mean(distances, dtype=np.float64)),
    }


def mean_and_error(values: Sequence[float]) -> dict[str, float]:
    """Returns the mean and its standard error, as the published code has it.

    That code divides by the number of splits, not by one less.
    """
    return {
        "mean": float(np.mean(values)),
        "standard_error": float(np.std(values) / math.sqrt(len(values))),
    }
