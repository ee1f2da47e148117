# SPDX-License-Identifier: Apache-2.0
"""Calibration of predictions on held-out data.

Functions take the truth first and a `Predictive` second; they return a number
or an object that corrects later predictions. They use NumPy alone, and work
where Keras is not installed. Names are imported when they are asked for. The
files have an underscore; other rooms may use the names below and
`fit_noise_precision`. This room imports `predictive`, `metrics` and what comes
before them.
"""

from typing import TYPE_CHECKING

from keras_bayesdrop._core.lazy import lazy_files

_FILES = {
    "_conformal": ("conformal",),
    "_conformal_intervals": ("ConformalIntervals",),
    "_conformal_sets": ("ConformalSets",),
    "_noise_precision": ("noise_precision",),
    "_temperature": (
        "Temperature",
        "temperature",
    ),
}

if TYPE_CHECKING:
    from keras_bayesdrop.calibrate._conformal import conformal as conformal
    from keras_bayesdrop.calibrate._conformal_intervals import (
        ConformalIntervals as ConformalIntervals,
    )
    from keras_bayesdrop.calibrate._conformal_sets import (
        ConformalSets as ConformalSets,
    )
    from keras_bayesdrop.calibrate._noise_precision import (
        noise_precision as noise_precision,
    )
    from keras_bayesdrop.calibrate._temperature import (
        Temperature as Temperature,
    )
    from keras_bayesdrop.calibrate._temperature import (
        temperature as temperature,
    )
else:
    __getattr__, __dir__ = lazy_files(__name__, _FILES)
