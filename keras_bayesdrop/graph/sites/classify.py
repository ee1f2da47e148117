# SPDX-License-Identifier: Apache-2.0
"""Maps Keras noise layers to their distributions."""

import dis
from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.noise import AdditiveGaussian
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import NoiseSource
from keras_bayesdrop.noise.noise_shape import NoiseShape

_NOISE_LAYERS = (
    keras.layers.Dropout,
    keras.layers.GaussianDropout,
    keras.layers.AlphaDropout,
    keras.layers.GaussianNoise,
)

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
        `None` unless the layer does nothing but perturb its input. A subclass
        counts as what it inherits from, unless its `call` does more than
        call the one it inherits.
    """
    if isinstance(layer, NoiseSource):
        return layer.noise_site()
    if own_call(layer) is not None:
        return None
    if isinstance(layer, keras.layers.Dropout):
        noise = getattr(layer, "noise", "bernoulli")
        if isinstance(noise, Multiplicative):
            return noise, _noise_shape(layer)
        if noise == "gaussian":
            rate = _rate(layer, below_one=True)
            return Gaussian(rate), _noise_shape(layer)
        return Bernoulli(_rate(layer)), _noise_shape(layer)
    if isinstance(layer, keras.layers.GaussianDropout):
        return Gaussian(_rate(layer, below_one=True)), None
    if isinstance(layer, keras.layers.AlphaDropout):
        return Alpha(_rate(layer, below_one=True)), _noise_shape(layer)
    if isinstance(layer, keras.layers.GaussianNoise):
        return AdditiveGaussian(float(layer.stddev)), None
    return None


def own_call(layer: Any) -> Callable[..., Any] | None:
    """Returns the `call` that a subclass of a noise layer wrote anew.

    A `call` that only hands its inputs to the one it inherits, as in

        def call(self, inputs):
            return super().call(inputs, training=True)

    is no code of its own: the layer is the noise it inherits.
    """
    if not isinstance(layer, _NOISE_LAYERS):
        return None
    for cls in type(layer).__mro__:
        call = cls.__dict__.get("call")
        if call is None:
            continue
        if private_keras.is_ours(cls):
            return None
        if not _only_hands_on(call):
            return call  # type: ignore[no-any-return]
    return None


def _only_hands_on(call: Any) -> bool:
    """Returns whether a method only calls the method it overrides."""
    code = getattr(call, "__code__", None)
    if code is None or not set(code.co_names) <= {"super", "call"}:
        return False
    calculates = ("BINARY", "INPLACE", "UNARY", "COMPARE", "JUMP", "BUILD")
    return "call" in code.co_names and not any(
        step.opname.startswith(calculates)
        for step in dis.get_instructions(code)
    )


def _rate(layer: Any, below_one: bool = False) -> float:
    """Returns the rate of a layer, which may have been set after it was made.

    Keras checks a rate once, and allows 1 where the noise is infinite.
    """
    try:
        return check_rate(layer.rate, below_one=below_one)
    except BayesdropError as error:
        raise BayesdropError(
            f"Layer `{layer.name}` ({type(layer).__name__}) has no usable "
            f"rate. {error}"
        ) from None


def _noise_shape(layer: Any) -> NoiseShape:
    for spatial, rank in _SPATIAL_RANK.items():
        if isinstance(layer, spatial):
            if getattr(layer, "data_format", None) == "channels_first":
                return (None, None, *[1] * (rank - 2))
            return (None, *[1] * (rank - 2), None)
    shape = getattr(layer, "noise_shape", None)
    return None if shape is None else tuple(shape)
