# SPDX-License-Identifier: Apache-2.0
"""The mean of the exponential of a normal value that is clipped.

For `s ~ N(m, v)` with standard deviation `d`, and `c = clip(s, -L, L)`:

    E exp(c) = exp(-L) P(s < -L) + exp(L) P(s > L)
               + exp(m + v / 2) P(-L < d z + m + v < L),    z ~ N(0, 1)

which is `exp(m + v / 2)` where the limits are far away.
"""

import math

import tensorflow as tf

from keras_bayesdrop.moments.normal import density
from keras_bayesdrop.moments.normal import tail

# Below it a value is certain: nothing is divided by zero.
_SMALLEST_STD = 1e-12
# Beyond it `tail` and `density` come near the end of float64.
_FAR = 25.0


def mean_exponential(
    mean: tf.Tensor, variance: tf.Tensor, limit: float
) -> tf.Tensor:
    """Returns the mean of `exp(clip(s, -limit, limit))` for normal `s`.

    Args:
        mean: Tensor, the mean of `s`.
        variance: Tensor like `mean`, not negative.
        limit: Positive float.

    Returns:
        Tensor like `mean`.
    """
    m, v = tf.cast(mean, tf.float64), tf.cast(variance, tf.float64)
    d = tf.maximum(tf.sqrt(v), _SMALLEST_STD)
    low, high = (-limit - m) / d, (limit - m) / d
    beyond = math.exp(-limit) * tail(-low) + math.exp(limit) * tail(high)
    return tf.cast(beyond + _within(m, d, limit), mean.dtype)


def _within(m: tf.Tensor, d: tf.Tensor, limit: float) -> tf.Tensor:
    """Returns the mean of `exp(s)`, counted where `s` is within the limits.

    It is `exp(m + v / 2) (P(z > a) - P(z > b))`. The first factor may be too
    large for any float where the second is too small. Where both limits are
    on one side of the shifted mean, the product is taken by parts: with the
    density `f` and the ratio `r(x) = P(z > x) / f(x)`,

        exp(m + v / 2) P(z > a) = exp(-limit) f((-limit - m) / d) r(a)
    """
    shifted = m + d * d
    a, b = (-limit - shifted) / d, (limit - shifted) / d
    lower = math.exp(-limit) * density((-limit - m) / d)
    upper = math.exp(limit) * density((limit - m) / d)
    above = lower * _ratio(tf.maximum(a, 0.0)) - upper * _ratio(
        tf.maximum(b, 0.0)
    )
    below = upper * _ratio(tf.maximum(-b, 0.0)) - lower * _ratio(
        tf.maximum(-a, 0.0)
    )
    # Between the limits, the shifted mean bounds the exponent.
    exponent = tf.minimum(m + d * d / 2, limit)
    between = tf.exp(exponent) * (1.0 - tail(-a) - tail(b))
    return tf.where(a > 0.0, above, tf.where(b < 0.0, below, between))


def _ratio(x: tf.Tensor) -> tf.Tensor:
    """Returns `P(z > x) / f(x)` for `x` not negative."""
    near = tf.minimum(x, _FAR)
    far = tf.maximum(x, _FAR)
    square = 1.0 / (far * far)
    series = 1.0 - square * (1.0 - 3.0 * square * (1.0 - 5.0 * square))
    return tf.where(x < _FAR, tail(near) / density(near), series / far)
