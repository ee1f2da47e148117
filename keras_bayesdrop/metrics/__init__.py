# SPDX-License-Identifier: Apache-2.0
"""How good a prediction and its uncertainty are, against labels."""

from keras_bayesdrop.metrics.accuracy import accuracy as accuracy
from keras_bayesdrop.metrics.expected_calibration_error import (
    expected_calibration_error as expected_calibration_error,
)
from keras_bayesdrop.metrics.negative_log_likelihood import (
    negative_log_likelihood as negative_log_likelihood,
)
from keras_bayesdrop.metrics.root_mean_squared_error import (
    root_mean_squared_error as root_mean_squared_error,
)
