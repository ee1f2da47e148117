# SPDX-License-Identifier: Apache-2.0
"""Makes uncertainty hold what it says, with the help of validation data."""

from keras_bayesdrop.calibrate.conformal import conformal as conformal
from keras_bayesdrop.calibrate.conformal_intervals import (
    ConformalIntervals as ConformalIntervals,
)
from keras_bayesdrop.calibrate.conformal_sets import (
    ConformalSets as ConformalSets,
)
from keras_bayesdrop.calibrate.noise_precision import (
    noise_precision as noise_precision,
)
from keras_bayesdrop.calibrate.temperature import Temperature as Temperature
from keras_bayesdrop.calibrate.temperature import temperature as temperature
