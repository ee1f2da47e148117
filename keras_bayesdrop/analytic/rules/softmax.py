# SPDX-License-Identifier: Apache-2.0
"""Softmax of uncertain logits."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_bayesdrop.analytic import activations
from keras_bayesdrop.analytic.moments import Moments
from keras_bayesdrop.analytic.moments import Outcome
from keras_bayesdrop.analytic.registry import register_rule
from keras_bayesdrop.errors import PlanError

# Multiplies by a matrix.
Product: TypeAlias = Callable[[tf.Tensor], tf.Tensor]

# Below all logits.
_NEVER = -1e30


def softmax_outcome(x: Moments) -> Outcome:
    """Returns the moments of the softmax over the last axis.

    A probability is the logistic function of how far its logit is ahead of
    the others together:

        p[k] = sigmoid(u[k]),    u[k] = x[k] - log(sum{ exp(x[j]) : j != k })

    `u` is taken as normal. Exact for two classes. Means are then scaled to sum
    to one; so are second moments, which for one class that takes all are means.
    """
    logits, variance = x.mean, x.spread()
    diagonal = variance[..., tf.newaxis, :]
    made = _probabilities(*_ahead(logits, variance, lambda s: s * diagonal))

    def joint(before: tf.Tensor) -> tuple[Moments, tf.Tensor]:
        variance = tf.linalg.diag_part(before)
        made = _probabilities(*_ahead(logits, variance, lambda s: s @ before))
        # J C J with J = diag(p) - p p', without a product of matrices.
        p = made.mean
        with_p = tf.linalg.matvec(before, p)
        inner = before + _sum(p * with_p)[:, :, tf.newaxis]
        inner -= with_p[:, :, tf.newaxis] + with_p[:, tf.newaxis, :]
        return made, p[:, :, tf.newaxis] * p[:, tf.newaxis, :] * inner

    if logits.shape.rank != 2:
        return Outcome(made)
    # No mean derivative that holds for all rows: covariances with what comes
    # before end here.
    return Outcome(made, (), joint)


def _ahead(
    logits: tf.Tensor, variance: tf.Tensor, times: Product
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and variance of how far each logit is ahead.

    With the temperature `b` of `_temperature` and the shares
    `s = softmax(x / b)` of the other logits, and the covariance C of all,

        mean[k]     = x[k] - b log(sum{ exp(x[j] / b) : j != k })
        variance[k] = C[kk] - 2 (C s)[k] + s' C s

    The shares of all but one are those of all, scaled; so are sums over them,
    and so one temperature would do for all. The largest logit has its own,
    since nothing might be left of the others; what the temperature of the
    others of any other logit is, beside that of all, is put right to first
    order, less so the higher it is.

    Args:
        logits: Their means, [..., classes].
        variance: Their variances.
        times: Multiplies by their covariance, [..., any, classes].
    """
    classes = logits.shape[-1]
    top = tf.one_hot(tf.argmax(logits, axis=-1), classes, dtype=logits.dtype)
    # All, and all but the largest.
    two = tf.stack([logits, logits + _NEVER * top], axis=-2)
    diagonal = variance[..., tf.newaxis, :]

    def temperatures(s: tf.Tensor) -> tf.Tensor:
        within, between = _sum(s * diagonal), _sum(s * times(s))
        return _temperature(within - between, -_sum(tf.math.xlogy(s, s)))

    start = temperatures(tf.ones_like(two[..., :1, :]) / classes)
    b = temperatures(tf.nn.softmax(two / start))
    scaled = two / b
    together = tf.reduce_logsumexp(scaled, axis=-1, keepdims=True)
    s = tf.exp(scaled - together)
    with_s = times(s)
    between = _sum(s * with_s)
    s_all, _ = tf.unstack(s, axis=-2)
    b_all, b_rest = tf.unstack(b, axis=-2)
    together_all, together_rest = tf.unstack(together, axis=-2)
    with_all, with_rest = tf.unstack(with_s, axis=-2)
    between_all, between_rest = tf.unstack(between, axis=-2)
    # Of all but k, from those of all. At most a half of them is k, but for the
    # largest, of which this is not used.
    p = tf.minimum(s_all, 0.5)
    left = 1.0 - p
    own = p * variance
    with_others = (with_all - own) / left
    within = (_sum(s_all * variance) - own) / left
    between = (between_all - p * (2.0 * with_all - own)) / tf.square(left)
    information = tf.math.xlogy(s_all, s_all)
    entropy = tf.math.log1p(-p) - (_sum(information) - information) / left
    entropy = tf.maximum(entropy, 0.0)
    change = _temperature(within - between, entropy) / b_all - 1.0
    others = b_all * (together_all + tf.math.log1p(-p)) + change * entropy
    is_top = top > 0.0
    ahead = logits - tf.where(is_top, b_rest * together_rest, others)
    cross = tf.where(is_top, with_rest, with_others)
    square = tf.where(is_top, between_rest, between)
    return ahead, tf.maximum(variance - 2.0 * cross + square, 0.0)


def _temperature(spread: tf.Tensor, entropy: tf.Tensor) -> tf.Tensor:
    """Returns the temperature at which noisy logits are summed.

    Logits with normal noise of covariance C are together ahead of their means
    by about

        E log(sum{ exp(x[j]) : j }) ~ b log(sum{ exp(mean[j] / b) : j })
        b^2 = 1 + (sum{ s[j] C[jj] : j } - s' C s) / entropy(s)

    with the shares `s = softmax(mean / b)`: right to first order in C, and for
    n logits alike with large noise of one variance `sqrt(2 log(n))` standard
    deviations at most, as their maximum.

    Args:
        spread: The numerator.
        entropy: Of the shares, like `spread`.
    """
    ratio = tf.math.divide_no_nan(tf.maximum(spread, 0.0), entropy)
    return tf.sqrt(1.0 + ratio)


def _sum(x: tf.Tensor) -> tf.Tensor:
    """Returns sums over classes, [..., 1]."""
    return tf.reduce_sum(x, axis=-1, keepdims=True)


def _probabilities(ahead: tf.Tensor, spread: tf.Tensor) -> Moments:
    first, second, _ = activations.sigmoid(ahead, spread)
    total = _sum(first)
    mean = first / total
    # No more than of probabilities that are zero or one.
    return Moments(mean, tf.minimum(second / total, mean * (1.0 - mean)))


@register_rule(keras.layers.Softmax)
def softmax(layer: keras.layers.Softmax, inputs: Sequence[Moments]) -> Outcome:
    """Softmax over the last axis."""
    if layer.axis != -1:
        raise PlanError(
            f"Layer `{layer.name}` has no rule for moments. Expected a softmax "
            f"over the last axis. Received: axis={layer.axis}"
        )
    return softmax_outcome(inputs[0])
