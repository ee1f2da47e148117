# SPDX-License-Identifier: Apache-2.0
"""Moments of layers that draw their weights.

Independent weights of mean W and variance S, and inputs independent of them:

    E y[j]   = sum{ W[ij] E x[i] : i } + b[j]
    Var y[j] = Var(x W)[j] + sum{ S[ij] (Var x[i] + (E x[i])^2) : i }

Weights with one factor for all of an input unit are noise on that unit.
"""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.layers._dropout.noisy_weights import NoisyWeightsLayer
from keras_bayesdrop.layers._gaussian.layer import GaussianLayer
from keras_bayesdrop.moments.moments import Factor
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome
from keras_bayesdrop.moments.noise import affine_of
from keras_bayesdrop.moments.rules.conv import convolve
from keras_bayesdrop.moments.rules.dense import multiply

_CONV = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)


def perturb_weights(layer: Any, x: Moments, active: bool) -> Outcome | None:
    """Takes moments through a layer with noise on its weights.

    Args:
        layer: The layer.
        x: What goes in.
        active: Whether the noise is on.

    Returns:
        `None` if the layer is of an unknown kind.
    """
    dtype = x.mean.dtype
    if isinstance(layer, NoisyWeightsLayer):
        kernel = tf.cast(layer.kernel, dtype)
        factor = affine_of(layer.noise_family, dtype)
        mean, spread = factor.factor * kernel, factor.factor_variance
        if active:
            return _apply(layer, x, mean, spread * tf.square(kernel))
        return _apply(layer, x, kernel, None)
    if not isinstance(layer, GaussianLayer):
        return None
    kernel = layer.mean_kernel()
    if not active:
        return _apply(layer, x, kernel, None)
    if layer.parametrization != "correlated":
        return _apply(layer, x, kernel, layer.weight_variance())
    return _perturb_units(layer, x, kernel)


def _perturb_units(layer: Any, x: Moments, kernel: Any) -> Outcome | None:
    """Takes moments through the noise on the input units, then the rest."""
    alpha = tf.cast(tf.exp(layer.log_alpha()), x.mean.dtype)
    if alpha.shape.rank:
        shape = [1] * x.mean.shape.rank
        first = getattr(layer, "data_format", "") == "channels_first"
        shape[1 if first else -1] = -1
        alpha = tf.reshape(alpha, shape)
    own = alpha * (x.spread() + tf.square(x.mean))
    return Outcome(
        Moments(x.mean, x.spread() + own),
        (Factor(tf.ones_like(x.mean[:1])),),
        then=lambda noisy: (
            multiply(layer, noisy, kernel)
            if isinstance(layer, keras.layers.Dense)
            else convolve(layer, noisy, keras.ops.conv, kernel)
        ),
    )


def _apply(layer: Any, x: Moments, kernel: Any, spread: Any) -> Outcome | None:
    if isinstance(layer, keras.layers.Dense):
        return multiply(layer, x, kernel, spread)
    if isinstance(layer, _CONV):
        return convolve(layer, x, keras.ops.conv, kernel, spread)
    return None
