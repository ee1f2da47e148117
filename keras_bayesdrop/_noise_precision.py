# SPDX-License-Identifier: Apache-2.0
"""The observation noise that makes held-out targets most likely."""

from typing import Any

import numpy as np

_TOLERANCE = 1e-6
_MAX_ITERATIONS = 200


def fit_noise_precision(samples: Any, targets: Any) -> float:
    """Maximises the log-likelihood of a mixture over its common precision.

        tau* = argmax{ sum{ log mean{ N(y; y[t], 1/tau) : t } : rows } : tau }

    by expectation maximisation: responsibilities of the samples, then the
    precision as the inverse of the responsibility-weighted squared error.

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
    tiny = np.finfo(np.float64).tiny
    variance = max(float(np.mean(squared)) / dims, tiny)
    for _ in range(_MAX_ITERATIONS):
        logits = -0.5 * squared / variance
        weights = np.exp(logits - logits.max(axis=0))
        weights /= weights.sum(axis=0)
        better = float(np.mean(np.sum(weights * squared, axis=0))) / dims
        better = max(better, tiny)
        if abs(better - variance) <= _TOLERANCE * variance:
            variance = better
            break
        variance = better
    return float(1.0 / variance)
