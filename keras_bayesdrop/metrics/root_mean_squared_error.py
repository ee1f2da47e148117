# SPDX-License-Identifier: Apache-2.0
"""Typical distance of the mean from the target."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import finite_numbers
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets


def root_mean_squared_error(
    prediction: Prediction, targets: npt.ArrayLike
) -> float:
    """Root of the mean squared error, over all rows and outputs.

        RMSE = sqrt(mean{ (mean[i] - targets[i])**2 : i })

    Args:
        prediction: `Predictive` of a regression, or its mean
            `[rows, outputs]`.
        targets: Array `[rows, outputs]`.

    Returns:
        Float, in the unit of the targets.

    Example:
        >>> root_mean_squared_error([1.0, 5.0], [1.0, 1.0])
        2.8284271247461903
    """
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        mean: Array = prediction.mean
    else:
        mean = finite_numbers("prediction", prediction)
        check_some(mean)
    error = mean - regression_targets(mean, targets)
    return float(np.sqrt(np.mean(np.square(error))))
