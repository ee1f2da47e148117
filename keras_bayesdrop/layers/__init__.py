# SPDX-License-Identifier: Apache-2.0
"""Layers that drop in training and at prediction alike."""

from keras_bayesdrop.layers.mc_alpha_dropout import (
    MCAlphaDropout as MCAlphaDropout,
)
from keras_bayesdrop.layers.mc_dropout import MCDropout as MCDropout
from keras_bayesdrop.layers.mc_gaussian_dropout import (
    MCGaussianDropout as MCGaussianDropout,
)
from keras_bayesdrop.layers.mc_spatial_dropout import (
    MCSpatialDropout1D as MCSpatialDropout1D,
)
from keras_bayesdrop.layers.mc_spatial_dropout import (
    MCSpatialDropout2D as MCSpatialDropout2D,
)
from keras_bayesdrop.layers.mc_spatial_dropout import (
    MCSpatialDropout3D as MCSpatialDropout3D,
)
