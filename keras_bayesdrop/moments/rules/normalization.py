# SPDX-License-Identifier: Apache-2.0
"""Rules of normalization by fixed statistics."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bayesdrop.moments.outcome import Factor
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule


@register_rule(keras.layers.BatchNormalization)
def batch_normalization(
    layer: keras.layers.BatchNormalization, inputs: Sequence[MeanVariance]
) -> Outcome:
    """A factor and a summand per channel, as in inference mode."""
    (x,) = inputs
    dtype = x.mean.dtype
    scale = tf.math.rsqrt(tf.cast(layer.moving_variance, dtype) + layer.epsilon)
    if layer.scale:
        scale = scale * tf.cast(layer.gamma, dtype)
    shift = -tf.cast(layer.moving_mean, dtype) * scale
    if layer.center:
        shift = shift + tf.cast(layer.beta, dtype)
    shape = [1] * x.mean.shape.rank
    shape[layer.axis] = -1
    scale, shift = tf.reshape(scale, shape), tf.reshape(shift, shape)
    variance = None if x.certain else x.spread() * tf.square(scale)
    return Outcome(
        MeanVariance(x.mean * scale + shift, variance),
        (Factor(scale),),
        linear=True,
    )


@register_rule(keras.layers.Rescaling)
def rescaling(
    layer: keras.layers.Rescaling, inputs: Sequence[MeanVariance]
) -> Outcome:
    """A factor and a summand."""
    (x,) = inputs
    mean = tf.convert_to_tensor(layer(x.mean))
    scale = tf.cast(layer.scale, mean.dtype) * tf.ones_like(mean[:1])
    variance = None if x.certain else x.spread() * tf.square(scale)
    return Outcome(MeanVariance(mean, variance), (Factor(scale),), linear=True)
