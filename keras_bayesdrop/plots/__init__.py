# SPDX-License-Identifier: Apache-2.0
"""Pictures. They need matplotlib: `pip install keras-bayesdrop[plots]`."""

from keras_bayesdrop.plots.class_scatter import class_scatter as class_scatter
from keras_bayesdrop.plots.dropout_phases import (
    dropout_phases as dropout_phases,
)
from keras_bayesdrop.plots.entropy_histogram import (
    entropy_histogram as entropy_histogram,
)
from keras_bayesdrop.plots.importance_weights import (
    importance_weights as importance_weights,
)
from keras_bayesdrop.plots.parity import parity as parity
from keras_bayesdrop.plots.predictive_band import (
    predictive_band as predictive_band,
)
from keras_bayesdrop.plots.regression_calibration import (
    regression_calibration as regression_calibration,
)
from keras_bayesdrop.plots.reliability_diagram import (
    reliability_diagram as reliability_diagram,
)
from keras_bayesdrop.plots.risk_coverage import risk_coverage as risk_coverage
from keras_bayesdrop.plots.scale_curves import scale_curves as scale_curves
from keras_bayesdrop.plots.weight_heatmap import (
    weight_heatmap as weight_heatmap,
)
