# SPDX-License-Identifier: Apache-2.0
"""Dense layers."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bayesdrop.analytic.moments import Matrix
from keras_bayesdrop.analytic.moments import Moments
from keras_bayesdrop.analytic.moments import Outcome
from keras_bayesdrop.analytic.registry import register_rule
from keras_bayesdrop.analytic.rules.activation import activate


@register_rule(keras.layers.Dense)
def dense(layer: keras.layers.Dense, inputs: Sequence[Moments]) -> Outcome:
    """A matmul: mean by W, variance by the squares of W.

    E y = E x W + b,    Var y[j] = sum{ W[ij]^2 Var x[i] : i }
    """
    (x,) = inputs
    kernel = tf.cast(layer.kernel, x.mean.dtype)
    mean = tf.tensordot(x.mean, kernel, 1)
    mean = tf.ensure_shape(mean, [*x.mean.shape[:-1], kernel.shape[1]])
    if layer.use_bias:
        mean = mean + tf.cast(layer.bias, mean.dtype)
    variance = None
    if x.variance is not None:
        variance = tf.tensordot(x.variance, tf.square(kernel), 1)
    return Outcome(
        Moments(mean, variance),
        (Matrix(kernel),),
        linear=True,
        then=lambda y: activate(layer.activation, y, layer.name),
    )
