# SPDX-License-Identifier: Apache-2.0
"""Softmax of uncertain logits."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bayesdrop.analytic import normal
from keras_bayesdrop.analytic.moments import Moments
from keras_bayesdrop.analytic.moments import Outcome
from keras_bayesdrop.analytic.registry import register_rule
from keras_bayesdrop.errors import PlanError


def softmax_outcome(x: Moments) -> Outcome:
    """Returns the moments of the softmax over the last axis.

    A probability is the logistic function of how far its logit is ahead of
    the others together:

        p[k] = sigmoid(u[k]),    u[k] = x[k] - log(sum{ exp(x[j]) : j != k })

    `u` is taken as normal, with the mean to second order in the spread of the
    logits and the variance to first order; mean and variance of the logistic
    function of it by quadrature. Exact for two classes. Means are then scaled
    to sum to one.
    """
    mean = x.mean
    classes = mean.shape[-1]
    eye = tf.eye(classes, dtype=mean.dtype)
    # [..., k, j]: the others, as seen by class k.
    others = mean[..., tf.newaxis, :] - 1e30 * eye
    shares = tf.nn.softmax(others)
    ahead = mean - tf.reduce_logsumexp(others, axis=-1)
    gradient = eye - shares

    def moments(
        spread: tf.Tensor, curvature: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        first, second, _ = normal.expectation(
            tf.sigmoid, ahead - 0.5 * curvature, tf.sqrt(spread)
        )
        total = tf.reduce_sum(first, axis=-1, keepdims=True)
        return first / total, second / tf.square(total)

    variance = x.spread()[..., tf.newaxis, :]
    spread = tf.reduce_sum(tf.square(gradient) * variance, axis=-1)
    curvature = tf.reduce_sum(shares * (1.0 - shares) * variance, axis=-1)
    made = Moments(*moments(spread, curvature))

    def joint(before: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        spread = tf.einsum("rki,rij,rkj->rk", gradient, before, gradient)
        bent = tf.einsum("rki,rij,rkj->rk", shares, before, shares)
        own = tf.einsum("rkj,rj->rk", shares, tf.linalg.diag_part(before))
        first, second = moments(tf.maximum(spread, 0.0), own - bent)
        jacobian = tf.linalg.diag(first) - (
            first[:, :, tf.newaxis] * first[:, tf.newaxis, :]
        )
        between = jacobian @ before @ jacobian
        return first, tf.linalg.set_diag(between, second)

    if mean.shape.rank != 2:
        return Outcome(made)
    # No mean derivative that holds for all rows: covariances with what comes
    # before end here.
    return Outcome(made, (), joint)


@register_rule(keras.layers.Softmax)
def softmax(layer: keras.layers.Softmax, inputs: Sequence[Moments]) -> Outcome:
    """Softmax over the last axis."""
    if layer.axis != -1:
        raise PlanError(
            f"Layer `{layer.name}` has no rule for moments. Expected a softmax "
            f"over the last axis. Received: axis={layer.axis}"
        )
    return softmax_outcome(inputs[0])
