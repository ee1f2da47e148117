# SPDX-License-Identifier: Apache-2.0
"""Rules of average pooling."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule


@register_rule(
    keras.layers.AveragePooling1D,
    keras.layers.AveragePooling2D,
    keras.layers.AveragePooling3D,
)
def average_pooling(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """Means of windows: `n` independent units have `1 / n^2` of each variance.

    At the border Keras divides by the number of entries in the window.
    """
    (x,) = inputs
    mean = tf.convert_to_tensor(layer.call(x.mean))
    variance = None
    if x.variance is not None:
        pooled = tf.convert_to_tensor(layer.call(x.variance))
        size = float(math.prod(layer.pool_size))
        count: Any = size
        if layer.padding == "same":
            # Padding does not count, so windows at the border hold fewer
            # entries.
            count = _window_sizes(layer, x.variance)
        variance = pooled / count
    return Outcome(MeanVariance(mean, variance), linear=True)


def _window_sizes(layer: Any, x: tf.Tensor) -> tf.Tensor:
    """Returns the number of entries in each window of a "same" pooling."""
    ones = tf.ones_like(x[:1])
    places = ones.shape.rank - 2
    first = layer.data_format == "channels_first"
    channels = ones.shape[1] if first else ones.shape[-1]
    kernel = tf.ones([*layer.pool_size, 1, 1], ones.dtype)
    kernel = tf.tile(kernel, [1] * places + [channels, 1])
    return tf.convert_to_tensor(
        keras.ops.depthwise_conv(
            ones,
            kernel,
            strides=layer.strides,
            padding="same",
            data_format=layer.data_format,
        )
        if places < 3
        else keras.ops.conv(
            ones[..., :1],
            tf.ones([*layer.pool_size, 1, 1], ones.dtype),
            strides=layer.strides,
            padding="same",
            data_format="channels_last",
        )
    )


@register_rule(
    keras.layers.GlobalAveragePooling1D,
    keras.layers.GlobalAveragePooling2D,
    keras.layers.GlobalAveragePooling3D,
)
def global_average_pooling(
    layer: Any, inputs: Sequence[MeanVariance]
) -> Outcome:
    """Means over all positions."""
    (x,) = inputs
    mean = tf.convert_to_tensor(layer.call(x.mean))
    variance = None
    if x.variance is not None:
        pooled = tf.convert_to_tensor(layer.call(x.variance))
        places = tf.size(x.mean[0]) // tf.size(mean[0])
        variance = pooled / tf.cast(places, pooled.dtype)
    return Outcome(MeanVariance(mean, variance), linear=True)
