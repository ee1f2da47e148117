# SPDX-License-Identifier: Apache-2.0
"""Rules of dense layers."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments.outcome import Matrix
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule
from keras_bayesdrop.moments.rules.activation import activate


@register_rule(keras.layers.Dense)
def dense(layer: keras.layers.Dense, inputs: Sequence[MeanVariance]) -> Outcome:
    """A matmul: the mean with W, the variance with the squares of W.

    E y = E x W + b,    Var y[j] = sum{ W[ij]^2 Var x[i] : i }
    """
    return multiply(layer, inputs[0], layer.kernel)


def multiply(
    layer: Any, x: MeanVariance, kernel: Any, spread: Any = None
) -> Outcome:
    """Propagates moments through a matmul.

    Independent weights of variance `spread` add to each variance:

        Cov(y[j], y[k]) = (W' Cov(x) W)[jk]
            + (j = k) sum{ spread[ij] (Var x[i] + (E x[i])^2) : i }

    Args:
        layer: The layer with bias and activation.
        x: Moments of the input.
        kernel: Mean of the kernel.
        spread: Variance of the kernel, if it has one.
    """
    kernel = tf.cast(kernel, x.mean.dtype)
    mean = tf.tensordot(x.mean, kernel, 1)
    mean = tf.ensure_shape(mean, [*x.mean.shape[:-1], kernel.shape[1]])
    if layer.bias is not None:  # as Keras does
        mean = mean + tf.cast(layer.bias, mean.dtype)
    variance = None
    if x.variance is not None:
        variance = tf.tensordot(x.variance, tf.square(kernel), 1)
    joint = own = None
    if spread is not None:
        square = x.spread() + tf.square(x.mean)
        own = tf.tensordot(square, tf.cast(spread, mean.dtype), 1)
        variance = own if variance is None else variance + own
        if not x.certain and mean.shape.rank == 2:
            joint = _with_own_variance(mean, kernel, own)
    return Outcome(
        MeanVariance(mean, variance),
        (Matrix(kernel),),
        joint,
        linear=True,
        then=lambda y: activate(layer.activation, y, layer.name),
        own=own,
    )


def _with_own_variance(
    mean: tf.Tensor, kernel: tf.Tensor, own: tf.Tensor
) -> Callable[[tf.Tensor], tuple[MeanVariance, tf.Tensor]]:
    def joint(before: tf.Tensor) -> tuple[MeanVariance, tf.Tensor]:
        between = tf.einsum("ij,rik,kl->rjl", kernel, before, kernel)
        return MeanVariance(mean, tf.linalg.diag_part(between) + own), between

    return joint
