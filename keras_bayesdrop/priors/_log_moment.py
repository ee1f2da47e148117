# SPDX-License-Identifier: Apache-2.0
"""The mean of log |w| over a Gaussian, and Dawson's function, under XLA.

With w ~ N(r, 1), u = r^2 / 2 and D+ the Dawson function,

    K(u) = E log|w| - E log|w at r = 0| = u 2F2(1, 1; 3/2, 2; -u)
    h(u) = dK/du = D+(sqrt u) / sqrt u,    h(0) = 1

XLA does not compile `tf.math.special.dawsn`, which has these values. In
float32 both are computed as rational functions, with these relative errors
over all u >= 0, before rounding:

    K = log(1 + u R(u)) / 2,      R = P / Q of degree 7,             3.2e-8
    h = (1 + E(u)) / (1 + 2 u),   E = P / Q of degrees 7 and 8,      7.9e-8

They are minimax fits to values of 40 digits. In float64 both come from the
series of the Faddeeva function with 40 terms, which on the real line is one in
Chebyshev polynomials of (L^2 - u) / (L^2 + u); the error is below 2e-14.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.priors._faddeeva import fourier_coefficients

Coefficients: TypeAlias = tuple[float, ...]

# Coefficients from the power of zero upwards.
_R_ABOVE: Coefficients = (2.0, 1.99600442, 0.933560891, 0.205159137)
_R_ABOVE += (0.0269350516, 0.00838124006, -0.000205139215, 0.000117127006)
_R_BELOW: Coefficients = (1.0, 0.331336055, 0.157004848, 0.0319002183)
_R_BELOW += (0.00453276108, 0.0011688689, -1.82667251e-5, 1.64405175e-5)
_E_ABOVE: Coefficients = (0.0, 1.33332937, -0.0573797667, 0.0246877957)
_E_ABOVE += (0.00132202172, 0.000268557663, 2.70906832e-6, 2.81624367e-6)
_E_BELOW: Coefficients = (1.0, 0.756921787, 0.281405661, 0.0676911909)
_E_BELOW += (0.0123684913, 0.00143306381, 0.00025456574, -3.51177117e-8)
_E_BELOW += (2.81601826e-6,)
# Above this `u` the first terms of the series in 1 / u are exact to 1e-8, and
# below it no power overflows.
_FAR = 1e4
_R_INFINITE = 4.0 * math.exp(np.euler_gamma)

_TERMS = 40


@tf.custom_gradient
def log_moment(ratio: Any) -> Any:
    """Returns K(ratio^2 / 2), with derivatives of every order.

    Args:
        ratio: Tensor of float32 or float64, mean over standard deviation, with
            absolute values up to about 1e18.

    Returns:
        A tensor of the same shape and dtype, relative error below 1e-6 in
        float32 and 1e-13 in float64.
    """

    def gradient(upstream: Any) -> Any:
        return upstream * slope(ratio)

    u = 0.5 * ratio * ratio
    if ratio.dtype == tf.float64:
        return _chebyshev_value(u), gradient
    far = u > _FAR
    near = keras.ops.where(far, 1.0, u)
    odds = near * polynomial(_R_ABOVE, near) / polynomial(_R_BELOW, near)
    odds_far = _R_INFINITE * (u - 0.5) - 1.0
    return 0.5 * keras.ops.log1p(keras.ops.where(far, odds_far, odds)), gradient


@tf.custom_gradient
def slope(ratio: Any) -> Any:
    """Returns the derivative of `log_moment`, `ratio * h(ratio^2 / 2)`.

    That is sqrt(2) D+(ratio / sqrt 2).
    """

    def gradient(upstream: Any) -> Any:
        u = 0.5 * ratio * ratio
        excess, rate = _excess_and_rate(u)
        return upstream * (1.0 - 2.0 * u * excess) * rate

    excess, rate = _excess_and_rate(0.5 * ratio * ratio)
    return ratio * ((1.0 + excess) * rate), gradient


def _excess_and_rate(u: Any) -> tuple[Any, Any]:
    """Returns E(u) and 1 / (1 + 2 u).

    Then h = (1 + E) / (1 + 2 u), and the second derivative of K by the ratio,
    1 - 2 u h, is (1 - 2 u E) / (1 + 2 u), with less cancellation.
    """
    rate = 1.0 / (1.0 + 2.0 * u)
    if u.dtype == tf.float64:
        return _chebyshev_excess(u), rate
    far = u > _FAR
    near = keras.ops.where(far, 1.0, u)
    above = keras.ops.where(far, 1.0, polynomial(_E_ABOVE, near))
    below = keras.ops.where(far, u, polynomial(_E_BELOW, near))
    return above / below, rate


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Returns `sum_k coefficients[k] x^k` by Horner's rule."""
    total: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


@functools.cache
def _chebyshev_tables() -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Returns L^2 and the coefficients of the two series in float64.

    With t = (L^2 - u) / (L^2 + u) and the a[n] of the Faddeeva function,

        K = log(1 + u / L^2) / 2 + sqrt(pi) / L * sum a[n] (1 - T[n](t)) / n
        h = (1 / 2 + c / (L^2 + u) * sum a[n] U[n - 1](t)) / (L^2 + u)

    with c = 2 sqrt(pi) L. For accuracy at small u the factor 1 - t is taken out
    of the first sum, by
    (1 - T[n]) / (1 - t) = n + 2 sum{ (n - k) T[k] : 0 < k < n }.
    """
    length, a = fourier_coefficients(_TERMS)
    scale = math.sqrt(math.pi) / length
    value = [
        (1.0 if k == 0 else 2.0)
        * scale
        * sum(a[n - 1] * (n - k) / n for n in range(k + 1, _TERMS + 1))
        for k in range(_TERMS)
    ]
    return length**2, tuple(value), tuple(4.0 * scale * c for c in a)


def _chebyshev_value(u: Any) -> Any:
    square, value, _ = _chebyshev_tables()
    inverse = 1.0 / (square + u)
    t = (square - u) * inverse
    last, later = _clenshaw(value[1:], t)
    series = value[0] + t * last - later
    return 0.5 * keras.ops.log1p(u / square) + 2.0 * u * inverse * series


def _chebyshev_excess(u: Any) -> Any:
    """Returns E = (1 + 2 u) h - 1, which is small for small and large u."""
    square, _, derivative = _chebyshev_tables()
    inverse = 1.0 / (square + u)
    series, _ = _clenshaw(derivative, (square - u) * inverse)
    # h = inverse * (1 / 2 + square * inverse * series / 2)
    bracket = 1.0 - 2.0 * square + (1.0 + 2.0 * u) * square * inverse * series
    return 0.5 * inverse * bracket


def _clenshaw(coefficients: Sequence[float], t: Any) -> tuple[Any, Any]:
    """Returns the last two values of Clenshaw's recurrence, last one first.

    The last one is `sum_k coefficients[k] U[k](t)`.
    """
    twice = 2.0 * t
    later = keras.ops.zeros_like(t)
    last = keras.ops.zeros_like(t)
    for coefficient in reversed(coefficients):
        last, later = coefficient + twice * last - later, last
    return last, later
