# SPDX-License-Identifier: Apache-2.0
"""Rules of convolutions."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule
from keras_bayesdrop.moments.rules.activation import activate


@register_rule(keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
def conv(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """A convolution: the mean with the kernel, the variance with its squares.

    Treats units as independent, and ignores that windows overlap.
    """
    return convolve(layer, inputs[0], keras.ops.conv)


@register_rule(keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
def depthwise_conv(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """A convolution of each channel by itself."""
    return convolve(layer, inputs[0], keras.ops.depthwise_conv)


def convolve(
    layer: Any,
    x: MeanVariance,
    operation: Any,
    kernel: Any = None,
    spread: Any = None,
) -> Outcome:
    """Propagates moments through a convolution.

    Args:
        layer: The layer with settings, bias and activation.
        x: Moments of the input.
        operation: Function of `keras.ops`.
        kernel: Mean of the kernel, by default the kernel of the layer.
        spread: Variance of the kernel, if it has one.
    """

    def run(values: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        padding = layer.padding
        if padding == "causal":
            before = layer.dilation_rate[0] * (layer.kernel_size[0] - 1)
            channels_last = layer.data_format == "channels_last"
            time = (
                [[before, 0], [0, 0]]
                if channels_last
                else [[0, 0], [before, 0]]
            )
            values, padding = tf.pad(values, [[0, 0], *time]), "valid"
        return operation(
            values,
            kernel,
            strides=tuple(layer.strides),
            padding=padding,
            dilation_rate=layer.dilation_rate,
            data_format=layer.data_format,
        )

    kernel = layer.kernel if kernel is None else kernel
    weights = tf.cast(kernel, x.mean.dtype)
    mean = run(x.mean, weights)
    if layer.use_bias:
        shape = [1] * mean.shape.rank
        shape[-1 if layer.data_format == "channels_last" else 1] = -1
        mean = mean + tf.reshape(tf.cast(layer.bias, mean.dtype), shape)
    variance = None
    if x.variance is not None:
        variance = run(x.variance, tf.square(weights))
    if spread is not None:
        # A weight enters an output once, as in a matmul.
        own = run(x.spread() + tf.square(x.mean), tf.cast(spread, mean.dtype))
        variance = own if variance is None else variance + own
    return Outcome(
        MeanVariance(mean, variance),
        linear=True,
        then=lambda y: activate(layer.activation, y, layer.name),
    )
