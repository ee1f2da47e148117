# SPDX-License-Identifier: Apache-2.0
"""Which layers are noise, and which."""

from typing import Any

import keras

from keras_bayesdrop._draws import NoiseShape
from keras_bayesdrop.noise import AdditiveGaussian
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise import Noise

# Rank of the input of each spatial dropout: one mask per feature map.
_SPATIAL_RANK = {
    keras.layers.SpatialDropout1D: 3,
    keras.layers.SpatialDropout2D: 4,
    keras.layers.SpatialDropout3D: 5,
}


def noise_of(layer: Any) -> tuple[Noise, NoiseShape] | None:
    """Returns the noise that a layer is, with its shape.

    Args:
        layer: Any Keras layer.

    Returns:
        `None` unless the layer does nothing but perturb its input. Subclasses
        count as what they inherit from.
    """
    if isinstance(layer, keras.layers.Dropout):
        if getattr(layer, "noise", "bernoulli") == "gaussian":
            return Gaussian(float(layer.rate)), _noise_shape(layer)
        return Bernoulli(float(layer.rate)), _noise_shape(layer)
    if isinstance(layer, keras.layers.GaussianDropout):
        return Gaussian(float(layer.rate)), None
    if isinstance(layer, keras.layers.AlphaDropout):
        return Alpha(float(layer.rate)), _noise_shape(layer)
    if isinstance(layer, keras.layers.GaussianNoise):
        return AdditiveGaussian(float(layer.stddev)), None
    return None


def _noise_shape(layer: Any) -> NoiseShape:
    for spatial, rank in _SPATIAL_RANK.items():
        if isinstance(layer, spatial):
            if getattr(layer, "data_format", None) == "channels_first":
                return (None, None, *[1] * (rank - 2))
            return (None, *[1] * (rank - 2), None)
    shape = getattr(layer, "noise_shape", None)
    return None if shape is None else tuple(shape)
