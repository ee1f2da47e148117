# SPDX-License-Identifier: Apache-2.0
"""Plots of predictions, calibration, weights and training.

They need matplotlib: `pip install keras-bayesdrop[plots]`. It is imported when
the first plot is drawn. Functions that compare a prediction with the truth take
the truth first. Names are imported when they are asked for; those that plot a
prediction work where Keras is not installed. The files have an underscore;
other rooms may use the functions below, and `Predictive.plot` uses `_choice`.
This room imports `theory`, `sparsity`, `calibrate` and what comes before them.
"""

from typing import TYPE_CHECKING

from keras_bayesdrop._core.lazy import lazy_module

_FILES = {
    "_class_scatter": ("class_scatter",),
    "_dropout_phases": ("dropout_phases",),
    "_entropy_histogram": ("entropy_histogram",),
    "_fan_chart": ("fan_chart",),
    "_importance_weights": ("importance_weights",),
    "_parity": ("parity",),
    "_predictive_band": ("predictive_band",),
    "_regression_calibration": ("regression_calibration",),
    "_reliability_diagram": ("reliability_diagram",),
    "_risk_coverage": ("risk_coverage",),
    "_scale_curves": ("scale_curves",),
    "_uncertainty_map": ("uncertainty_map",),
    "_weight_heatmap": ("weight_heatmap",),
}

if TYPE_CHECKING:
    from keras_bayesdrop.plots._class_scatter import (
        class_scatter as class_scatter,
    )
    from keras_bayesdrop.plots._dropout_phases import (
        dropout_phases as dropout_phases,
    )
    from keras_bayesdrop.plots._entropy_histogram import (
        entropy_histogram as entropy_histogram,
    )
    from keras_bayesdrop.plots._fan_chart import fan_chart as fan_chart
    from keras_bayesdrop.plots._importance_weights import (
        importance_weights as importance_weights,
    )
    from keras_bayesdrop.plots._parity import parity as parity
    from keras_bayesdrop.plots._predictive_band import (
        predictive_band as predictive_band,
    )
    from keras_bayesdrop.plots._regression_calibration import (
        regression_calibration as regression_calibration,
    )
    from keras_bayesdrop.plots._reliability_diagram import (
        reliability_diagram as reliability_diagram,
    )
    from keras_bayesdrop.plots._risk_coverage import (
        risk_coverage as risk_coverage,
    )
    from keras_bayesdrop.plots._scale_curves import scale_curves as scale_curves
    from keras_bayesdrop.plots._uncertainty_map import (
        uncertainty_map as uncertainty_map,
    )
    from keras_bayesdrop.plots._weight_heatmap import (
        weight_heatmap as weight_heatmap,
    )
else:
    __getattr__, __dir__ = lazy_module(
        __name__,
        {
            name: f"{__name__}.{file}"
            for file, names in _FILES.items()
            for name in names
        },
        needs=("keras", "tensorflow"),
    )
