# SPDX-License-Identifier: Apache-2.0
"""Metrics of a prediction and its uncertainty, as functions and for `compile`.

Functions take the truth first and a `Predictive` or arrays second, use NumPy
alone, and work where Keras is not installed. Classes are Keras metrics. Names
are imported when they are asked for. The files have an underscore; other rooms
may use the functions below, the checks in `_inputs`, the quantities of a
regression in `_regression`, all metrics of a prediction in `_measures` and
their intervals in `_bootstrap`. This room imports `predictive` and what comes
before it.
"""

from typing import TYPE_CHECKING

from keras_bayesdrop._core.lazy import lazy_files

_FILES = {
    "_calibration_curve": (
        "CalibrationCurve",
        "calibration_curve",
        "miscalibration_area",
    ),
    "_calibration_errors": (
        "Reliability",
        "adaptive_calibration_error",
        "classwise_calibration_error",
        "expected_calibration_error",
        "reliability",
    ),
    "_crps": (
        "crps",
        "energy_score",
    ),
    "_intervals": (
        "interval_coverage",
        "interval_score",
        "interval_width",
        "pinball_loss",
        "sharpness",
    ),
    "_keras_metrics": (
        "BrierScore",
        "ExpectedCalibrationError",
        "IntervalCoverage",
    ),
    "_ranking": (
        "RiskCoverage",
        "aurc",
        "excess_aurc",
        "risk_coverage",
        "uncertainty_aupr",
        "uncertainty_auroc",
    ),
    "_scores": (
        "accuracy",
        "brier_score",
        "negative_log_likelihood",
        "root_mean_squared_error",
    ),
}

if TYPE_CHECKING:
    from keras_bayesdrop.metrics._calibration_curve import (
        CalibrationCurve as CalibrationCurve,
    )
    from keras_bayesdrop.metrics._calibration_curve import (
        calibration_curve as calibration_curve,
    )
    from keras_bayesdrop.metrics._calibration_curve import (
        miscalibration_area as miscalibration_area,
    )
    from keras_bayesdrop.metrics._calibration_errors import (
        Reliability as Reliability,
    )
    from keras_bayesdrop.metrics._calibration_errors import (
        adaptive_calibration_error as adaptive_calibration_error,
    )
    from keras_bayesdrop.metrics._calibration_errors import (
        classwise_calibration_error as classwise_calibration_error,
    )
    from keras_bayesdrop.metrics._calibration_errors import (
        expected_calibration_error as expected_calibration_error,
    )
    from keras_bayesdrop.metrics._calibration_errors import (
        reliability as reliability,
    )
    from keras_bayesdrop.metrics._crps import crps as crps
    from keras_bayesdrop.metrics._crps import energy_score as energy_score
    from keras_bayesdrop.metrics._intervals import (
        interval_coverage as interval_coverage,
    )
    from keras_bayesdrop.metrics._intervals import (
        interval_score as interval_score,
    )
    from keras_bayesdrop.metrics._intervals import (
        interval_width as interval_width,
    )
    from keras_bayesdrop.metrics._intervals import pinball_loss as pinball_loss
    from keras_bayesdrop.metrics._intervals import sharpness as sharpness
    from keras_bayesdrop.metrics._keras_metrics import BrierScore as BrierScore
    from keras_bayesdrop.metrics._keras_metrics import (
        ExpectedCalibrationError as ExpectedCalibrationError,
    )
    from keras_bayesdrop.metrics._keras_metrics import (
        IntervalCoverage as IntervalCoverage,
    )
    from keras_bayesdrop.metrics._ranking import RiskCoverage as RiskCoverage
    from keras_bayesdrop.metrics._ranking import aurc as aurc
    from keras_bayesdrop.metrics._ranking import excess_aurc as excess_aurc
    from keras_bayesdrop.metrics._ranking import risk_coverage as risk_coverage
    from keras_bayesdrop.metrics._ranking import (
        uncertainty_aupr as uncertainty_aupr,
    )
    from keras_bayesdrop.metrics._ranking import (
        uncertainty_auroc as uncertainty_auroc,
    )
    from keras_bayesdrop.metrics._scores import accuracy as accuracy
    from keras_bayesdrop.metrics._scores import brier_score as brier_score
    from keras_bayesdrop.metrics._scores import (
        negative_log_likelihood as negative_log_likelihood,
    )
    from keras_bayesdrop.metrics._scores import (
        root_mean_squared_error as root_mean_squared_error,
    )
else:
    __getattr__, __dir__ = lazy_files(
        __name__, _FILES, needs=("keras", "tensorflow")
    )
