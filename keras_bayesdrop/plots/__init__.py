# SPDX-License-Identifier: Apache-2.0
"""Pictures. They need matplotlib: `pip install keras-bayesdrop[plots]`."""

from keras_bayesdrop.plots.dropout_phases import (
    dropout_phases as dropout_phases,
)
from keras_bayesdrop.plots.importance_weights import (
    importance_weights as importance_weights,
)
from keras_bayesdrop.plots.scale_curves import scale_curves as scale_curves
from keras_bayesdrop.plots.weight_heatmap import (
    weight_heatmap as weight_heatmap,
)
