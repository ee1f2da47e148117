# SPDX-License-Identifier: Apache-2.0
"""How sure a regression claims to be."""

import numpy as np

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import finite_numbers
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.predictive import Predictive


def sharpness(prediction: Prediction) -> float:
    """Root of the mean predictive variance, over all rows and outputs.

        sharpness = sqrt(mean{ total[i] : i })

    with `Predictive.total`, so that observation noise counts if it is known.
    The targets do not enter: among calibrated predictions the sharpest is the
    best, and a prediction that is not calibrated gains nothing by it. If it
    is calibrated on average, it equals `root_mean_squared_error`.

    Args:
        prediction: `Predictive` of a regression, or its standard deviations
            `[rows, outputs]`.

    Returns:
        Float, in the unit of the targets.

    Example:
        >>> sharpness([3.0, 4.0])
        3.5355339059327378

    References:
        - [Gneiting et al., 2007](https://doi.org/10.1111/j.1467-9868.2007.00587.x).
        - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263).
    """
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        return float(np.sqrt(np.mean(prediction.total, dtype=np.float64)))
    std = finite_numbers("prediction", prediction)
    check_some(std)
    if np.any(std < 0):
        raise BayesdropError(
            "Invalid value for argument `prediction`. Expected standard "
            "deviations, which are not negative. Received: values from "
            f"{std.min()} to {std.max()}"
        )
    return float(np.sqrt(np.mean(np.square(std))))
