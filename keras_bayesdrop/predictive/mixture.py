# SPDX-License-Identifier: Apache-2.0
"""Equal-weight mixtures of Gaussians with one standard deviation."""

import math
from statistics import NormalDist

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array

# Mixture quantiles are computed in pieces of about this many samples, so that
# their temporary arrays stay in cache.
_MIXTURE_VALUES = 2**17


def log_mean_exp(values: Float64Array) -> Float64Array:
    """`log(mean(exp(values)))` over the first axis, without overflow."""
    peak = values.max(axis=0)
    return np.asarray(peak + np.log(np.mean(np.exp(values - peak), axis=0)))


def mixture_quantile(samples: Array, noise: float, q: float) -> Float64Array:
    """Quantile `q` of the equal-weight mixture of `N(samples[t], noise**2)`.

    Args:
        samples: Array `[T, ...]`.
        noise: Standard deviation of each part.
        q: Level in `(0, 1)`.

    Returns:
        Array `[...]`.
    """
    flat = samples.reshape(len(samples), -1)
    result = np.empty(flat.shape[1])
    width = max(1, _MIXTURE_VALUES // len(flat))
    for start in range(0, flat.shape[1], width):
        part = slice(start, start + width)
        result[part] = _solve_mixture(flat[:, part].astype(float), noise, q)
    return result.reshape(samples.shape[1:])


def _solve_mixture(
    samples: Float64Array, noise: float, q: float
) -> Float64Array:
    """Solves `mean{ Phi((x - samples[t]) / noise) : t } = q` for `x`.

    Newton's method from the normal approximation, inside a bracket that each
    step shrinks. A step that would leave the bracket, or that is more than
    half as long as the one before, is replaced by bisection: every element
    converges, however far apart the samples are.
    """
    shift = NormalDist().inv_cdf(q) * noise
    low, high = samples.min(axis=0) + shift, samples.max(axis=0) + shift
    spread = np.sqrt(samples.var(axis=0) + noise**2)
    x = np.clip(samples.mean(axis=0) + spread * shift / noise, low, high)
    stride = high - low
    largest = np.maximum(np.abs(low), np.abs(high))
    tolerance = 1e-9 * noise + 4 * np.finfo(np.float64).eps * largest
    while True:
        todo = np.flatnonzero(stride > tolerance)
        if todo.size == 0:
            return np.asarray(x)
        here = x[todo]
        z = (here - samples[:, todo]) / noise  # [T, elements to do]
        excess = normal_cdf(z).mean(axis=0) - q
        low[todo] = np.where(excess < 0, here, low[todo])
        high[todo] = np.where(excess < 0, high[todo], here)
        density = np.exp(-(z**2) / 2).mean(axis=0) / math.sqrt(2 * math.pi)
        # No slope between distant samples: an infinite step, hence bisection.
        step = np.full_like(here, math.inf)
        np.divide(excess * noise, density, out=step, where=density > 1e-99)
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
