# SPDX-License-Identifier: Apache-2.0
"""Distance of a whole predictive distribution from the target."""

import math

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.metrics._regression import sample_array
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.mixture import normal_cdf


def crps(prediction: Prediction, targets: npt.ArrayLike) -> float:
    """Continuous ranked probability score, mean over rows and outputs.

        CRPS = integral{ (F(z) - [z >= y])**2 : z } = E|X - y| - E|X - X'| / 2

    for independent draws `X`, `X'` of the predictive. From samples `x[t]`, by
    the fair estimator, right on average for every `T`:

        sum{ |x[t] - y| : t } / T
            - sum{ |x[s] - x[t]| : s, t } / (2 * T * (T - 1))

    With `noise_precision` tau the draws have noise of variance `1 / tau`
    besides, whose expectation is taken in closed form: `|d|` becomes
    `E|d + noise|`. This takes a time that grows with `T**2`. Without samples:
    the closed form for the normal distribution of this mean and total
    variance,

        std * (z * (2 * Phi(z) - 1) + 2 * phi(z) - 1 / sqrt(pi)),
        z = (y - mean) / std

    It is a proper score, the absolute error of a prediction without spread,
    and forgives outliers more than the log-likelihood. The fair estimate may
    be below zero for few samples.

    Args:
        prediction: `Predictive` of a regression, or samples
            `[T, rows, outputs]`.
        targets: Array `[rows, outputs]`.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> crps([[0.0], [2.0]], [1.0])
        0.0

    References:
        - [Gneiting and Raftery, 2007](https://doi.org/10.1198/016214506000001437).
        - [Grimit et al., 2006](https://doi.org/10.1256/qj.05.235): mixtures.
        - [Ferro, 2014](https://doi.org/10.1002/qj.2270): the fair estimator.
    """
    tau = None
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        tau = prediction.noise_precision
        if prediction.samples is None:
            return _of_normal(prediction, targets)
    samples = sample_array(prediction)
    y = regression_targets(samples[0], targets)
    error = np.zeros(y.shape)
    for sample in samples:
        error += _size(sample - y, tau, 1) / len(samples)
    spread = _gaps(samples) if tau is None else _noisy_gaps(samples, tau)
    pairs = len(samples) * (len(samples) - 1)
    return float(np.mean(error - spread / pairs))


def _of_normal(p: Predictive, targets: npt.ArrayLike) -> float:
    y = regression_targets(p.mean, targets)
    variance = p.total.astype(np.float64)
    error = _expected_size(y - p.mean, np.sqrt(variance))
    return float(np.mean(error - np.sqrt(variance / math.pi)))


def _gaps(samples: Array) -> Float64Array:
    """Sum of `|x[s] - x[t]|` over `s < t`."""
    ordered = np.sort(samples, axis=0).astype(np.float64)
    # In order, x[i] is the larger of i pairs and the smaller of T - 1 - i.
    weights = 2 * np.arange(len(samples)) - (len(samples) - 1)
    return np.asarray(np.tensordot(weights, ordered - ordered[0], axes=1))


def _noisy_gaps(samples: Array, tau: float) -> Float64Array:
    """Sum of `E|x[s] - x[t] + two noises|` over `s < t`."""
    total = np.zeros(samples.shape[1:])
    for t in range(1, len(samples)):
        gap = samples[:t].astype(np.float64) - samples[t]
        total += _size(gap, tau, 2).sum(axis=0)
    return total


def _size(gap: Float64Array, tau: float | None, noises: int) -> Float64Array:
    """`E|gap + noises|`; without noise `|gap|`."""
    if tau is None:
        return np.abs(gap)
    return _expected_size(gap, np.full(gap.shape, math.sqrt(noises / tau)))


def _expected_size(gap: Float64Array, std: Float64Array) -> Float64Array:
    """`E|d|` for `d` normal of mean `gap`.

    E|d| = gap * (2 * Phi(z) - 1) + 2 * std * phi(z),    z = gap / std
    """
    safe = np.where(std > 0, std, 1.0)
    z = gap / safe
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    size = gap * (2 * normal_cdf(z) - 1) + 2 * std * density
    return np.where(std > 0, size, np.abs(gap))
