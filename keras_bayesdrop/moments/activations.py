# SPDX-License-Identifier: Apache-2.0
"""Moments of activations of normal variables.

Each function maps mean and variance of its input to mean, variance and mean
derivative of its output: in closed form if there is one, else by quadrature.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments import normal

# Largest number of standard deviations that makes a difference in float32.
_FAR = 30.0
# Added to variances before dividing by their root.
_TINY = 1e-30
# Smallest standard deviation for `wide_logistic`. Here it is as exact as
# quadrature over the normal distribution: both are off by less than 0.002 for
# any mean.
_WIDE = 2.75
_WIDE_NODES = 8

Triple = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
Activation = Callable[[tf.Tensor, tf.Tensor], Triple]


def linear(mean: tf.Tensor, variance: tf.Tensor) -> Triple:
    """Returns the moments unchanged."""
    return mean, variance, tf.ones_like(mean)


def relu(mean: tf.Tensor, variance: tf.Tensor) -> Triple:
    """Returns the moments of max(x, 0), exact for normal `x`.

        E y   = mean * Phi(a) + stddev * phi(a),    a = mean / stddev
        E y^2 = (mean^2 + variance) * Phi(a) + mean * stddev * phi(a)

    In terms of `q = Phi(-|a|)` and `r = phi(a) - |a| q` nothing large cancels:

        E y   = max(mean, 0) + stddev * r
        Var y = variance * (Phi(a) - |a| r - r^2)
    """
    # Never zero, so that certain units need no case of their own.
    stddev = tf.sqrt(variance + _TINY)
    far = tf.minimum(tf.abs(mean) / stddev, _FAR)
    q, r = normal.tail_and_excess(far)
    inside = tf.where(mean > 0, 1.0 - q, q)
    shrink = tf.maximum(inside - r * (far + r), 0.0)
    return tf.nn.relu(mean) + stddev * r, variance * shrink, inside


def relu_covariance(mean: tf.Tensor, covariance: tf.Tensor) -> tf.Tensor:
    """Returns the covariances of max(x, 0), exact for normal `x`.

    The derivative by the covariance is the probability that both are positive
    (Price), itself an integral over the correlation, so that with `a` the
    means over the standard deviations `s`, and `R` the correlation,

        Cov(y[i], y[j]) = s[i] s[j] (R Phi(a[i]) Phi(a[j])
            + integral{ (R - sin t) e(t) / (2 pi) : t in [0, arcsin R] })
        e(t) = exp(-(a[i]^2 - 2 a[i] a[j] sin t + a[j]^2) / (2 cos(t)^2))

    by Gauss-Legendre quadrature. The diagonal is left to `relu`.

    Args:
        mean: Tensor [rows, units].
        covariance: Tensor [rows, units, units].

    Returns:
        Tensor [rows, units, units].
    """
    stddev = tf.sqrt(tf.maximum(tf.linalg.diag_part(covariance), 0.0))
    a = tf.clip_by_value(tf.math.divide_no_nan(mean, stddev), -30.0, 30.0)
    a = tf.where(stddev > 0, a, 30.0 * tf.sign(mean))
    inside = normal.tail(-a)
    one, other = a[:, :, tf.newaxis], a[:, tf.newaxis, :]
    scale = stddev[:, :, tf.newaxis] * stddev[:, tf.newaxis, :]
    most = 1.0 - 1e-6
    correlation = tf.clip_by_value(
        tf.math.divide_no_nan(covariance, scale), -most, most
    )
    angle = tf.asin(correlation)
    squares, product = tf.square(one) + tf.square(other), 2.0 * one * other
    total = tf.zeros_like(covariance)
    for node, weight in zip(*normal.legendre(), strict=True):
        sine = tf.sin(node * angle)
        exponent = (squares - product * sine) / (2.0 * (1.0 - tf.square(sine)))
        total += weight * (correlation - sine) * tf.exp(-exponent)
    total *= angle / (2.0 * math.pi)
    both = inside[:, :, tf.newaxis] * inside[:, tf.newaxis, :]
    return scale * (correlation * both + total)


def leaky_relu(slope: float) -> Activation:
    """Returns the moments of max(x, slope * x) as a function.

    With `r = max(x, 0)`: y = slope * x + (1 - slope) * r, and
    Cov(x, r) = variance * Phi(a).
    """

    def activation(mean: tf.Tensor, variance: tf.Tensor) -> Triple:
        first, second, gain = relu(mean, variance)
        rest = 1.0 - slope
        spread = (
            slope**2 * variance
            + rest**2 * second
            + 2 * slope * rest * variance * gain
        )
        return slope * mean + rest * first, spread, slope + rest * gain

    return activation


def sigmoid(mean: tf.Tensor, variance: tf.Tensor) -> Triple:
    """Returns the moments of the logistic function of normal `x`.

    Computed for `-|mean|` and mirrored: small values keep all their digits.
    """
    stddev, below = tf.sqrt(variance), -tf.abs(mean)
    first, second, gain = _unless_wide(
        stddev,
        normal.expectation(tf.sigmoid, below, stddev),
        lambda wide: wide_logistic(below, wide),
    )
    return tf.where(mean > 0.0, 1.0 - first, first), second, gain


def tanh(mean: tf.Tensor, variance: tf.Tensor) -> Triple:
    """Returns the moments of 2 * sigmoid(2 * x) - 1 for normal `x`."""
    stddev = tf.sqrt(variance)

    def far(wide: tf.Tensor) -> Triple:
        below = -2.0 * tf.abs(mean)
        first, second, gain = wide_logistic(below, wide)
        return tf.sign(mean) * (1.0 - 2.0 * first), 4.0 * second, 4.0 * gain

    near = normal.expectation(tf.tanh, mean, stddev)
    return _unless_wide(2.0 * stddev, near, far)


def _unless_wide(
    stddev: tf.Tensor, near: Triple, far: Callable[[tf.Tensor], Triple]
) -> Triple:
    """Returns `near`, and `far(stddev)` for wide standard deviations.

    Skips `far` if no standard deviation is wide, which is the common case.
    """
    is_wide = stddev > _WIDE

    def choose(*places: int) -> tuple[tf.Tensor, ...]:
        def mixed() -> list[tf.Tensor]:
            moments = far(tf.maximum(stddev, _WIDE))
            return [tf.where(is_wide, moments[n], near[n]) for n in places]

        return tuple(
            tf.cond(
                tf.reduce_any(is_wide),
                mixed,
                lambda: [tf.identity(near[n]) for n in places],
            )
        )

    # In two steps, so that TensorFlow skips an unused derivative.
    (first, second), (gain,) = choose(0, 1), choose(2)
    return first, second, gain


def wide_logistic(mean: tf.Tensor, stddev: tf.Tensor) -> Triple:
    """Returns the moments of the logistic function of widely spread `x`.

    The function is then close to a step, which lies between the nodes of a
    quadrature over the normal distribution. This quadrature runs over the
    place of the step. Since sigmoid(x) is the probability that a logistic
    variable `l` is below `x`,

        E sigmoid(x)   = E Phi((mean - l) / stddev)
        E sigmoid(x)^2 = E 2 sigmoid(l) Phi((mean - l) / stddev)

    The second equation is the first for the larger of two such variables.

    Args:
        mean: Tensor of any shape, best not positive: for a mean near one the
            variance is a small difference.
        stddev: Tensor like `mean`, at least about `_WIDE`.
    """
    first, square, gain = (tf.zeros_like(mean) for _ in range(3))
    for share, weight in zip(*normal.legendre(_WIDE_NODES), strict=True):
        away = (math.log(share / (1.0 - share)) - mean) / stddev
        reached = normal.tail(away)
        first += weight * reached
        square += (2.0 * share * weight) * reached
        gain += weight * normal.density(away)
    return first, tf.maximum(square - tf.square(first), 0.0), gain / stddev


def quadrature(function: Callable[[Any], Any]) -> Activation:
    """Returns the moments of an elementwise activation as a function."""

    def activation(mean: tf.Tensor, variance: tf.Tensor) -> Triple:
        return normal.expectation(function, mean, tf.sqrt(variance))

    return activation


_leaky_by_default = leaky_relu(0.2)

# By Keras' functions. Activations with settings are layers, with own rules.
_KNOWN: dict[Any, Activation] = {
    keras.activations.linear: linear,
    keras.activations.relu: relu,
    keras.activations.leaky_relu: _leaky_by_default,
    keras.activations.sigmoid: sigmoid,
    keras.activations.tanh: tanh,
    **{
        function: quadrature(function)
        for function in (
            keras.activations.gelu,
            keras.activations.silu,
            keras.activations.elu,
            keras.activations.selu,
            keras.activations.softplus,
            keras.activations.softsign,
            keras.activations.exponential,
            keras.activations.hard_sigmoid,
            keras.activations.hard_silu,
            keras.activations.mish,
            keras.activations.relu6,
        )
    },
}


def activation_of(function: Any) -> Activation | None:
    """Returns the rule of one of Keras' activations, or `None`."""
    if function is None:
        return linear
    return _KNOWN.get(function)
