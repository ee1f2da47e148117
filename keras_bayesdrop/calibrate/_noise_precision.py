# SPDX-License-Identifier: Apache-2.0
"""Precision of the observation noise, fitted to held-out data."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.calibrate._checks import check_predictive
from keras_bayesdrop.calibrate._maximise import maximise
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.mixture import log_mean_exp
from keras_bayesdrop.predictive.sample_noise import learns_noise

# Smallest noise variance to try for a prediction by moments, as a fraction of
# the mean squared residual. Less noise would not show in any interval.
_LEAST_NOISE = 1e-6


@truth_first
def noise_precision(y: npt.ArrayLike, prediction: Predictive) -> float:
    """Fits the precision of the observation noise that makes `y` most likely.

        tau = argmax{ sum{ log(sum{ N(y[i]; y[i, t], 1 / tau) : t } / T) : i } }

    over the samples `t` and rows `i`: the log-likelihood that
    `Predictive.log_likelihood` reports. Gal's experiments choose `tau` from a
    grid. This function returns the maximum itself: a grid in `log(tau)`
    brackets it, and golden sections refine it. For a prediction by moments,
    which has no samples, the likelihood is that of normals with its mean and
    the variance `variance + 1 / tau`.

    Use rows that the model was not trained on: on training data residuals are
    too small, and the precision too large.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, with samples or by moments.
            Its own `noise_precision` is not used.

    Returns:
        Positive float `tau`. The noise has the variance `1 / tau`, in the
        squared unit of the targets.

    Example:
    ```python
    tau = keras_bayesdrop.calibrate.noise_precision(y_val, p_val)
    p_new = p_new.with_noise(noise_precision=tau)
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """
    if isinstance(prediction, Predictive) and learns_noise(prediction):
        raise BayesdropError(
            "The noise of this prediction is learned, and differs between "
            "rows: no single precision stands for it. Expected a prediction "
            "with head='regression'. Received: head='heteroscedastic'. Use "
            "`calibrate.conformal(..., method='normalized')` to correct its "
            "intervals."
        )
    p = check_predictive(prediction, ("regression",))
    target = regression_targets(p.mean, y)
    if p.samples is not None:
        closest = np.min(np.abs(p.samples - target), axis=0)
        if not np.any(closest > 0):
            raise _no_noise("a sample is equal to every target")
        return fit_noise_precision(p.samples, target)
    if p.stats.sampled:
        raise MissingSamplesError(
            "Cannot find the noise precision. Expected the single samples. "
            "Received: samples=None. Use predict_with_uncertainty(..., "
            "return_samples=True)."
        )
    return _of_normals(p.variance.astype(np.float64), target - p.mean)


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
    # The worst and the best sample of each row bound the best precision.
    tiny = np.finfo(np.float64).tiny
    low = -np.log(max(float(np.mean(squared.max(axis=0))) / dims, tiny))
    high = -np.log(max(float(np.mean(squared.min(axis=0))) / dims, tiny))
    # The likelihood may have several maxima between the bounds.
    return float(
        np.exp(maximise(lambda t: _row_likelihood(squared, dims, t), low, high))
    )


def _row_likelihood(squared: Float64Array, dims: int, log_tau: float) -> float:
    """Returns the mean log-likelihood of a row, up to a constant."""
    exponents = -0.5 * np.exp(log_tau) * squared
    return float(np.mean(log_mean_exp(exponents))) + 0.5 * dims * log_tau


def _of_normals(variance: Float64Array, residual: Float64Array) -> float:
    """Returns the best precision for residuals `N(0, variance + 1 / tau)`."""
    squared = residual**2
    largest = float(squared.max())
    if largest == 0:
        raise _no_noise("the mean is equal to every target")

    def log_likelihood(log_noise: float) -> float:
        total = variance + math.exp(log_noise)
        return -float(np.mean(np.log(total) + squared / total))

    # More noise than the largest residual is never better.
    low = math.log(_LEAST_NOISE * float(squared.mean()))
    best = maximise(log_likelihood, low, math.log(largest))
    if best < low + 1e-6:
        raise _no_noise("residuals that are smaller than the variance predicts")
    return math.exp(-best)


def _no_noise(received: str) -> BayesdropError:
    """Returns the error for a likelihood that grows as noise vanishes."""
    return BayesdropError(
        "There is no best noise precision: the likelihood grows as the noise "
        "goes to zero. Expected residuals larger than the prediction explains. "
        f"Received: {received}"
    )
