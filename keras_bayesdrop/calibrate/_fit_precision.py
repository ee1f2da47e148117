# SPDX-License-Identifier: Apache-2.0
"""The observation noise that makes held-out targets most likely."""

from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.calibrate._maximise import maximise
from keras_bayesdrop.predictive.mixture import log_mean_exp


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
    # The likelihood may have several maxima in between.
    return float(
        np.exp(maximise(lambda t: _likelihood(squared, dims, t), low, high))
    )


def _likelihood(squared: Float64Array, dims: int, log_tau: float) -> float:
    """Returns the mean log-likelihood of a row, up to a constant."""
    exponents = -0.5 * np.exp(log_tau) * squared
    return float(np.mean(log_mean_exp(exponents))) + 0.5 * dims * log_tau
