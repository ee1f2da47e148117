# SPDX-License-Identifier: Apache-2.0
"""The mean of log(1 + w^2) over a Gaussian w.

It has no elementary form. Narrow Gaussians use Gauss-Hermite quadrature, the
others the series of the Faddeeva function. The gradients are written by hand:
automatic differentiation takes three times as long.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.priors._faddeeva import fourier_coefficients
from keras_bayesdrop.priors._numerics import dtype_of

# Quadrature below this standard deviation, the series above. Relative to the
# result, their errors there are 3e-7 and 1e-8 in float32, and 1e-13 and 1e-14
# in float64, before rounding; and the series loses digits to cancellation.
_NARROW = {"float32": 0.4, "float64": 0.2}
_PAIRS_OF_NODES = {"float32": 8, "float64": 10}
_SERIES_TERMS = {"float32": 20, "float64": 40}


@tf.custom_gradient
def expected_log1p_square(mean: Any, stddev: Any) -> Any:
    """Returns E log(1 + w^2) for w ~ N(mean, stddev^2).

    Args:
        mean: Tensor of float32 or float64, below 1e9 in size.
        stddev: Positive tensor of the same shape, below 1e17.

    Returns:
        A tensor of the same shape.
    """
    limit = _NARROW[dtype_of(mean)]

    def gradient(upstream: Any) -> tuple[Any, Any]:
        partials = zip(
            _quadrature_partials(mean, keras.ops.minimum(stddev, limit)),
            _series_partials(mean, keras.ops.maximum(stddev, limit)),
            strict=True,
        )
        by_mean, by_stddev = (
            keras.ops.where(stddev < limit, by_quadrature, by_series)
            for by_quadrature, by_series in partials
        )
        return upstream * by_mean, upstream * by_stddev

    value = keras.ops.where(
        stddev < limit,
        _quadrature(mean, keras.ops.minimum(stddev, limit)),
        _series(mean, keras.ops.maximum(stddev, limit)),
    )
    return value, gradient


@functools.cache
def _hermite(pairs: int) -> tuple[tuple[float, float], ...]:
    """Returns the positive nodes for N(0, 1), and the weight of each."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(2 * pairs)
    weights = weights / weights.sum()
    both = zip(nodes[pairs:].tolist(), weights[pairs:].tolist(), strict=True)
    return tuple(both)


# The nodes mean + d and mean - d have the same weight, and share a logarithm:
#     (1 + (mean + d)^2) (1 + (mean - d)^2) = 1 + odds,
#     odds = 2 (mean^2 + d^2) + (mean^2 - d^2)^2


def _quadrature(mean: Any, stddev: Any) -> Any:
    square = keras.ops.square(mean)
    total: Any = 0.0
    for node, weight in _hermite(_PAIRS_OF_NODES[dtype_of(mean)]):
        distance = keras.ops.square(node * stddev)
        odds = 2.0 * (square + distance) + keras.ops.square(square - distance)
        total = total + weight * keras.ops.log1p(odds)
    return total


def _quadrature_partials(mean: Any, stddev: Any) -> tuple[Any, Any]:
    square = keras.ops.square(mean)
    by_mean: Any = 0.0
    by_stddev: Any = 0.0
    for node, weight in _hermite(_PAIRS_OF_NODES[dtype_of(mean)]):
        distance = keras.ops.square(node * stddev)
        difference = square - distance
        odds = 2.0 * (square + distance) + keras.ops.square(difference)
        by_mean = by_mean + weight * (1.0 + difference) / (1.0 + odds)
        rate = weight * node**2
        by_stddev = by_stddev + rate * (1.0 - difference) / (1.0 + odds)
    return 4.0 * mean * by_mean, 4.0 * stddev * by_stddev


# With width = sqrt(2) L stddev and below = width + 1 - i mean,
#     E = log|below|^2 - 2 sqrt(pi) / L * Re sum a[n] (Z^n - (-1)^n) / n,
#     Z = 2 width / below - 1


def _series(mean: Any, stddev: Any) -> Any:
    length, coefficients = fourier_coefficients(_SERIES_TERMS[dtype_of(mean)])
    scale = 2.0 * math.sqrt(math.pi) / length
    series = [scale * a / n for n, a in enumerate(coefficients, start=1)]
    at_infinity = sum(c * (-1.0) ** n for n, c in enumerate(series, start=1))
    width = stddev * (math.sqrt(2.0) * length)
    p, q, norm = _inverse(mean, width)
    real, _ = _at_complex((-at_infinity, *series), *_z(p, q, width))
    return keras.ops.log(norm) - real


def _series_partials(mean: Any, stddev: Any) -> tuple[Any, Any]:
    length, coefficients = fourier_coefficients(_SERIES_TERMS[dtype_of(mean)])
    scale = 2.0 * math.sqrt(math.pi) / length
    width_by_stddev = math.sqrt(2.0) * length
    width = stddev * width_by_stddev
    p, q, _ = _inverse(mean, width)
    derivative = [scale * a for a in coefficients]
    real, imaginary = _at_complex(derivative, *_z(p, q, width))
    # x + i y = (real + i imaginary) / below
    x, y = real * p - imaginary * q, real * q + imaginary * p
    # dZ/dmean = 2 i width / below^2, and dZ/dwidth = 2 (1 - i mean) / below^2
    by_mean = 2.0 * (q + width * (x * q + y * p))
    by_width = 2.0 * (p - (x + mean * y) * p + (y - mean * x) * q)
    return by_mean, by_width * width_by_stddev


def _inverse(mean: Any, width: Any) -> tuple[Any, Any, Any]:
    """Returns p + i q = 1 / (width + 1 - i mean), and 1 / (p^2 + q^2)."""
    below = width + 1.0
    norm = keras.ops.square(below) + keras.ops.square(mean)
    inverse = 1.0 / norm
    return below * inverse, mean * inverse, norm


def _z(p: Any, q: Any, width: Any) -> tuple[Any, Any]:
    return 2.0 * width * p - 1.0, 2.0 * width * q


def _at_complex(
    coefficients: Sequence[float], real: Any, imaginary: Any
) -> tuple[Any, Any]:
    """Returns a polynomial with real coefficients at real + i imaginary."""
    twice = 2.0 * real
    square = keras.ops.square(real) + keras.ops.square(imaginary)
    later = keras.ops.zeros_like(real)
    last = keras.ops.zeros_like(real)
    for coefficient in reversed(coefficients[1:]):
        last, later = coefficient + twice * last - square * later, last
    return coefficients[0] + real * last - square * later, imaginary * last
