# SPDX-License-Identifier: Apache-2.0
"""Metrics for `compile`, which Keras adds up batch by batch."""

from keras_bayesdrop.streaming.brier_score import BrierScore as BrierScore
from keras_bayesdrop.streaming.expected_calibration_error import (
    ExpectedCalibrationError as ExpectedCalibrationError,
)
from keras_bayesdrop.streaming.interval_coverage import (
    IntervalCoverage as IntervalCoverage,
)
