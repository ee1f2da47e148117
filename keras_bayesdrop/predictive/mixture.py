# SPDX-License-Identifier: Apache-2.0
"""Equal-weight mixtures of Gaussians."""

import math
from statistics import NormalDist

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.predictive.labels import sum_per_row

# Mixture quantiles are computed in pieces of about this many samples, so that
# their temporary arrays stay in cache.
_MIXTURE_VALUES = 2**17


def log_mean_exp(values: Float64Array) -> Float64Array:
    """`log(mean(exp(values)))` over the first axis, without overflow."""
    peak = values.max(axis=0)
    return np.asarray(peak + np.log(np.mean(np.exp(values - peak), axis=0)))


def mixture_quantile(
    samples: Array, noise: float | Array, q: float
) -> Float64Array:
    """Quantile `q` of the equal-weight mixture of `N(samples[t], noise[t]**2)`.

    Args:
        samples: Array `[T, ...]`.
        noise: Standard deviation of the parts: a positive number; or an array
            that broadcasts to one part, or `[T, ...]` of every part.
        q: Level in `(0, 1)`.

    Returns:
        Array `[...]`.
    """
    flat = samples.reshape(len(samples), -1)
    result = np.empty(flat.shape[1])
    scales = _flat_scales(noise, samples)
    width = max(1, _MIXTURE_VALUES // len(flat))
    for start in range(0, flat.shape[1], width):
        part = slice(start, start + width)
        scale = scales[:, part].astype(float)  # [T or 1, elements]
        result[part] = _solve_mixture(flat[:, part].astype(float), scale, q)
    return result.reshape(samples.shape[1:])


def mixture_log_density(
    target: Float64Array, samples: Array, variances: Array
) -> Float64Array:
    """Log density of rows under a mixture of independent Gaussians.

        log( sum{ prod{ N(y[d]; m[t, d], v[t, d]) : d } : t } / T )

    Args:
        target: Array `y`, `[rows, ...]`.
        samples: Array `m`, `[T, rows, ...]`.
        variances: Array `v`, `[T, rows, ...]`.

    Returns:
        Array `[rows]`, in nats.
    """
    logs = np.empty((len(samples), len(target)))
    for row, mean, variance in zip(logs, samples, variances, strict=True):
        row[:] = normal_log_density(target, mean, variance)
    return log_mean_exp(logs)


def normal_log_density(
    target: Float64Array, mean: Array, variance: Array
) -> Float64Array:
    """Log density of rows under independent Gaussians, in nats per row."""
    wide = variance.astype(np.float64)
    square = np.square(target - mean) / wide
    return sum_per_row(-0.5 * (square + np.log(2 * math.pi * wide)))


def _flat_scales(noise: float | Array, samples: Array) -> Array:
    """Returns standard deviations `[T or 1, elements]`."""
    scales = np.asarray(noise)
    if scales.ndim < samples.ndim:
        # One part stands for all: no copies for each sample.
        scales = np.broadcast_to(scales, samples.shape[1:])[np.newaxis]
    return scales.reshape(len(scales), -1)


def _solve_mixture(
    samples: Float64Array, noise: Float64Array, q: float
) -> Float64Array:
    """Solves `mean{ Phi((x - samples[t]) / noise[t]) : t } = q` for `x`.

    The solution lies between the least and the largest of the quantiles of
    the parts. Newton's method from the normal approximation, inside a bracket
    that each step shrinks. A step that would leave the bracket, or that is
    more than half as long as the one before, is replaced by bisection: every
    element converges, however far apart the samples are.
    """
    shift = NormalDist().inv_cdf(q) * noise
    ends = samples + shift
    low, high = ends.min(axis=0), ends.max(axis=0)
    smallest = noise.min(axis=0)
    spread = np.sqrt(samples.var(axis=0) + (noise**2).mean(axis=0))
    x = samples.mean(axis=0) + spread * shift[0] / noise[0]
    x = np.clip(x, low, high)
    stride = high - low
    largest = np.maximum(np.abs(low), np.abs(high))
    tolerance = 1e-9 * smallest + 4 * np.finfo(np.float64).eps * largest
    while True:
        todo = np.flatnonzero(stride > tolerance)
        if todo.size == 0:
            return np.asarray(x)
        here = x[todo]
        scale, unit = noise[:, todo], smallest[todo]
        z = (here - samples[:, todo]) / scale  # [T, elements to do]
        excess = normal_cdf(z).mean(axis=0) - q
        low[todo] = np.where(excess < 0, here, low[todo])
        high[todo] = np.where(excess < 0, high[todo], here)
        heights = np.exp(-(z**2) / 2) * (unit / scale)
        density = heights.mean(axis=0) / math.sqrt(2 * math.pi)
        # No slope between distant samples: an infinite step, hence bisection.
        step = np.full_like(here, math.inf)
        np.divide(excess * unit, density, out=step, where=density > 1e-99)
        there = here - step
        bisect = (there < low[todo]) | (there > high[todo])
        bisect |= np.abs(step) > stride[todo] / 2
        half = (high[todo] - low[todo]) / 2
        x[todo] = np.where(bisect, low[todo] + half, there)
        stride[todo] = np.where(bisect, half, np.abs(step))


def normal_cdf(z: Float64Array) -> Float64Array:
    """Standard normal distribution function, to the last digit.

    NumPy has none; a call of `math.erfc` per value takes about 50 ns.
    """
    scaled = (z.ravel() * -math.sqrt(0.5)).tolist()
    values = np.fromiter(map(math.erfc, scaled), np.float64, z.size)
    return 0.5 * values.reshape(z.shape)
