# SPDX-License-Identifier: Apache-2.0
"""The observation noise that makes held-out targets most likely."""

from typing import Any

import numpy as np

from keras_bayesdrop._arrays import Float64Array
from keras_bayesdrop._mixture import log_mean_exp

# The likelihood may have several maxima in the precision: a grid of this many
# values per factor e finds the best, and golden sections refine it.
_PER_E_FOLD = 4
_REFINEMENTS = 40
_GOLDEN = (5**0.5 - 1) / 2


def fit_noise_precision(samples: Any, targets: Any) -> float:
    """Maximises the log-likelihood of a mixture over its common precision.

        tau* = argmax{ sum{ log mean{ N(y; y[t], 1/tau) : t } : rows } : tau }

    Args:
        samples: Array [samples, rows, ...].
        targets: Array [rows, ...] of the shape of one sample.

    Returns:
        The precision `tau*`.
    """
    samples = np.asarray(samples, np.float64)
    samples = samples.reshape(*samples.shape[:2], -1)
    targets = np.asarray(targets, np.float64).reshape(samples.shape[1:])
    squared = np.sum((samples - targets) ** 2, axis=-1)  # [samples, rows]
    dims = samples.shape[-1]
    # The best precision lies between those of the worst and the best samples.
    tiny = np.finfo(np.float64).tiny
    low = -np.log(max(float(np.mean(squared.max(axis=0))) / dims, tiny))
    high = -np.log(max(float(np.mean(squared.min(axis=0))) / dims, tiny))
    count = int((high - low) * _PER_E_FOLD) + 2
    grid = np.linspace(low, high, count)
    best = int(np.argmax([_likelihood(squared, dims, t) for t in grid]))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, count - 1)]
    for _ in range(_REFINEMENTS):
        a = right - _GOLDEN * (right - left)
        b = left + _GOLDEN * (right - left)
        if _likelihood(squared, dims, a) < _likelihood(squared, dims, b):
            left = a
        else:
            right = b
    return float(np.exp(0.5 * (left + right)))


def _likelihood(squared: Float64Array, dims: int, log_tau: float) -> float:
    """Returns the mean log-likelihood of a row, up to a constant."""
    exponents = -0.5 * np.exp(log_tau) * squared
    return float(np.mean(log_mean_exp(exponents))) + 0.5 * dims * log_tau
