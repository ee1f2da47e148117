# SPDX-License-Identifier: Apache-2.0
"""Rule of the softmax of uncertain logits."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.moments import activations
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule

# Multiplies by a matrix.
Product: TypeAlias = Callable[[tf.Tensor], tf.Tensor]

# Smaller than any logit.
_NEVER = -1e30


def softmax_outcome(x: MeanVariance) -> Outcome:
    """Returns the moments of the softmax over the last axis.

    A probability is the logistic function of the lead of its logit over the
    others together:

        p[k] = sigmoid(u[k]),    u[k] = x[k] - log(sum{ exp(x[j]) : j != k })

    `u` counts as normal, which is exact for two classes. Means are then scaled
    to sum to one. Variances are scaled by the same factor.
    """
    logits, variance = x.mean, x.spread()
    diagonal = variance[..., tf.newaxis, :]
    moments = _probabilities(*_ahead(logits, variance, lambda s: s * diagonal))

    def joint(before: tf.Tensor) -> tuple[MeanVariance, tf.Tensor]:
        variance = tf.linalg.diag_part(before)
        moments = _probabilities(
            *_ahead(logits, variance, lambda s: s @ before)
        )
        # J C J with J = diag(p) - p p', without a matmul.
        p = moments.mean
        with_p = tf.linalg.matvec(before, p)
        inner = before + _sum(p * with_p)[:, :, tf.newaxis]
        inner -= with_p[:, :, tf.newaxis] + with_p[:, tf.newaxis, :]
        return moments, p[:, :, tf.newaxis] * p[:, tf.newaxis, :] * inner

    if logits.shape.rank != 2:
        return Outcome(moments)
    # Derivatives differ from row to row, which `Matrix` does not support:
    # covariances with earlier values end here.
    return Outcome(moments, (), joint)


def _ahead(
    logits: tf.Tensor, variance: tf.Tensor, times: Product
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and variance of the lead of each logit.

    With the temperature `b` of `_temperature` and the shares
    `s = softmax(x / b)` of the other logits, and the covariance C of all,

        mean[k]     = x[k] - b log(sum{ exp(x[j] / b) : j != k })
        variance[k] = C[kk] - 2 (C s)[k] + s' C s

    Sums over all logits, and over all but the largest, are computed directly;
    `_all_but_one` derives the sums over all but any other from the former.

    Args:
        logits: Their means, [..., classes].
        variance: Their variances.
        times: Multiplies by their covariance, [..., any, classes].
    """
    classes = logits.shape[-1]
    top = tf.one_hot(tf.argmax(logits, axis=-1), classes, dtype=logits.dtype)
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
    sums = s, b, b * together, with_s, _sum(s * with_s)
    every, (_, _, *but_top) = zip(
        *(tf.unstack(each, axis=-2) for each in sums), strict=True
    )
    but_one = _all_but_one(variance, *every)
    log_sum, cross, square = (
        tf.where(top > 0.0, *pair)
        for pair in zip(but_top, but_one, strict=True)
    )
    spread = variance - 2.0 * cross + square
    return logits - log_sum, tf.maximum(spread, 0.0)


def _all_but_one(
    variance: tf.Tensor,
    s: tf.Tensor,
    b: tf.Tensor,
    log_sum: tf.Tensor,
    with_s: tf.Tensor,
    between: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns sums over all logits but one, from those over all.

    Their shares are the shares of all, scaled. Their temperature is that of
    all, corrected to first order.

    Args:
        variance: As in `_ahead`.
        s: Shares of all. Shares above a half, which only the largest logit
            has, count as a half.
        b: Their temperature, [..., 1].
        log_sum: b log(sum{ exp(x[j] / b) : j }), [..., 1].
        with_s: C s.
        between: s' C s, [..., 1].

    Returns:
        `log_sum`, `with_s` and `between` of the others, for each logit.
    """
    p = tf.minimum(s, 0.5)
    left, log_left, own = 1.0 - p, tf.math.log1p(-p), p * variance
    within = (_sum(s * variance) - own) / left
    between = (between - p * (2.0 * with_s - own)) / tf.square(left)
    information = tf.math.xlogy(s, s)
    entropy = log_left - (_sum(information) - information) / left
    entropy = tf.maximum(entropy, 0.0)
    change = _temperature(within - between, entropy) / b - 1.0
    log_sum = log_sum + b * log_left + change * entropy
    return log_sum, (with_s - own) / left, between


def _temperature(spread: tf.Tensor, entropy: tf.Tensor) -> tf.Tensor:
    """Returns the temperature at which noisy logits are summed.

    For logits with normal noise of covariance C, approximately

        E log(sum{ exp(x[j]) : j }) ~ b log(sum{ exp(mean[j] / b) : j })
        b^2 = 1 + (sum{ s[j] C[jj] : j } - s' C s) / entropy(s)

    with the shares `s = softmax(mean / b)`. That is exact to first order in C,
    and grows in proportion to large noise, as the mean of the maximum does. For
    n equal logits it is `sqrt((1 - 1 / n) log(n))` standard deviations: 1.44
    for 10 and 2.14 for 100, where the mean of the maximum is 1.54 and 2.51.

    Args:
        spread: The numerator.
        entropy: Of the shares, like `spread`.
    """
    ratio = tf.math.divide_no_nan(tf.maximum(spread, 0.0), entropy)
    return tf.sqrt(1.0 + ratio)


def _sum(x: tf.Tensor) -> tf.Tensor:
    """Returns sums over classes, [..., 1]."""
    return tf.reduce_sum(x, axis=-1, keepdims=True)


def _probabilities(ahead: tf.Tensor, spread: tf.Tensor) -> MeanVariance:
    first, second, _ = activations.sigmoid(ahead, spread)
    total = _sum(first)
    mean = first / total
    # At most the variance of probabilities that are zero or one.
    return MeanVariance(mean, tf.minimum(second / total, mean * (1.0 - mean)))


@register_rule(keras.layers.Softmax)
def softmax(
    layer: keras.layers.Softmax, inputs: Sequence[MeanVariance]
) -> Outcome:
    """Softmax over the last axis."""
    if layer.axis != -1:
        raise PlanError(
            f"Layer `{layer.name}` has no rule for moments. Expected a softmax "
            f"over the last axis. Received: axis={layer.axis}"
        )
    return softmax_outcome(inputs[0])
