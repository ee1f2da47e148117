# SPDX-License-Identifier: Apache-2.0
"""Density, tail probabilities and quadrature of the normal distribution."""

import functools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import tensorflow as tf

# Nodes of Gauss-Hermite quadrature. `tests/moments/test_activations.py` holds
# the errors for |mean| <= 8 and standard deviations up to 6.
NODES = 16
# The scale of x, and the coefficients of t, t^2, ...
_ZELEN_SEVERO = (
    0.2316419,
    0.319381530,
    -0.356563782,
    1.781477937,
    -1.821255978,
    1.330274429,
)


def density(x: tf.Tensor) -> tf.Tensor:
    """Returns the standard normal density."""
    return tf.exp(-0.5 * tf.square(x)) / math.sqrt(2 * math.pi)


def tail(x: tf.Tensor) -> tf.Tensor:
    """Returns the probability of more than `x`, without cancellation."""
    return 0.5 * tf.math.erfc(x / math.sqrt(2))


def tail_and_excess(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns q = Phi(-x) and r = phi(x) - x q, for `x` not negative.

    The excess `r` is the mean of max(z - x, 0) for a standard normal z. In
    float32 `q` is the density times a polynomial in 1 / (1 + c x), with an
    error of 1e-7 (Abramowitz and Stegun, 26.2.17). Both then need one
    exponential, which is the largest cost of an activation's rule.
    """
    height = density(x)
    if x.dtype == tf.float32:
        t = 1.0 / (1.0 + _ZELEN_SEVERO[0] * x)
        ratio = tf.zeros_like(x)
        for coefficient in _ZELEN_SEVERO[:0:-1]:
            ratio = t * (ratio + coefficient)
        q = height * ratio
    else:
        q = tail(x)
    return q, tf.maximum(height - x * q, 0.0)


def expectation(
    function: Callable[[tf.Tensor], tf.Tensor],
    mean: tf.Tensor,
    stddev: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Integrates a function against normal distributions, unit by unit.

    Uses Gauss-Hermite quadrature with a fixed number of nodes, and Stein's
    identity for the mean derivative

        E f'(x) = Cov(x, f(x)) / Var(x)

    Args:
        function: An elementwise function.
        mean: Tensor of any shape.
        stddev: Tensor like `mean`, not negative.

    Returns:
        Mean and variance of `function(x)`, and its mean derivative.
    """
    nodes, weights = _hermite(NODES)
    first = tf.zeros_like(mean)
    values = []
    for node in nodes:
        values.append(function(mean + stddev * node))
    for value, weight in zip(values, weights, strict=True):
        first += weight * value
    second = tf.zeros_like(mean)
    covariance = tf.zeros_like(mean)
    for value, node, weight in zip(values, nodes, weights, strict=True):
        second += weight * tf.square(value - first)
        covariance += (weight * node) * value
    # Without spread the quotient is 0 / 0: take a difference quotient instead.
    step = tf.maximum(stddev, 1e-3)
    difference = function(mean + step) - function(mean - step)
    gain = tf.where(
        stddev > 1e-3,
        tf.math.divide_no_nan(covariance, stddev),
        difference / (2 * step),
    )
    return first, second, gain


@functools.cache
def legendre(
    count: int = 6,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns nodes and weights of Gauss-Legendre quadrature over [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


@functools.cache
def _hermite(
    count: int,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()
