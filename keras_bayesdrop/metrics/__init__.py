# SPDX-License-Identifier: Apache-2.0
"""How good a prediction and its uncertainty are, against labels."""

from keras_bayesdrop.metrics.accuracy import accuracy as accuracy
from keras_bayesdrop.metrics.adaptive_calibration_error import (
    adaptive_calibration_error as adaptive_calibration_error,
)
from keras_bayesdrop.metrics.aurc import aurc as aurc
from keras_bayesdrop.metrics.brier_score import brier_score as brier_score
from keras_bayesdrop.metrics.calibration_curve import (
    CalibrationCurve as CalibrationCurve,
)
from keras_bayesdrop.metrics.calibration_curve import (
    calibration_curve as calibration_curve,
)
from keras_bayesdrop.metrics.classwise_calibration_error import (
    classwise_calibration_error as classwise_calibration_error,
)
from keras_bayesdrop.metrics.crps import crps as crps
from keras_bayesdrop.metrics.energy_score import energy_score as energy_score
from keras_bayesdrop.metrics.excess_aurc import excess_aurc as excess_aurc
from keras_bayesdrop.metrics.expected_calibration_error import (
    expected_calibration_error as expected_calibration_error,
)
from keras_bayesdrop.metrics.interval_coverage import (
    interval_coverage as interval_coverage,
)
from keras_bayesdrop.metrics.interval_score import (
    interval_score as interval_score,
)
from keras_bayesdrop.metrics.interval_width import (
    interval_width as interval_width,
)
from keras_bayesdrop.metrics.miscalibration_area import (
    miscalibration_area as miscalibration_area,
)
from keras_bayesdrop.metrics.negative_log_likelihood import (
    negative_log_likelihood as negative_log_likelihood,
)
from keras_bayesdrop.metrics.pinball_loss import pinball_loss as pinball_loss
from keras_bayesdrop.metrics.reliability import Reliability as Reliability
from keras_bayesdrop.metrics.reliability import reliability as reliability
from keras_bayesdrop.metrics.risk_coverage import RiskCoverage as RiskCoverage
from keras_bayesdrop.metrics.risk_coverage import risk_coverage as risk_coverage
from keras_bayesdrop.metrics.root_mean_squared_error import (
    root_mean_squared_error as root_mean_squared_error,
)
from keras_bayesdrop.metrics.sharpness import sharpness as sharpness
from keras_bayesdrop.metrics.uncertainty_aupr import (
    uncertainty_aupr as uncertainty_aupr,
)
from keras_bayesdrop.metrics.uncertainty_auroc import (
    uncertainty_auroc as uncertainty_auroc,
)
