# SPDX-License-Identifier: Apache-2.0
"""CRPS, and the energy score for several outputs together."""

import functools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.metrics._regression import sample_array
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.mixture import normal_cdf
from keras_bayesdrop.predictive.sample_noise import knows_noise
from keras_bayesdrop.predictive.sample_noise import sample_precision


@truth_first
def crps(y: npt.ArrayLike, prediction: Prediction) -> float:
    """Continuous ranked probability score, mean over rows and outputs.

        CRPS = integral{ (F(z) - [z >= y])**2 : z } = E|X - y| - E|X - X'| / 2

    for independent draws `X`, `X'` of the predictive. Samples `x[t]` give the
    fair estimate, which is unbiased for every `T`:

        sum{ |x[t] - y| : t } / T
            - sum{ |x[s] - x[t]| : s, t } / (2 * T * (T - 1))

    Where the noise is known, the draws also have noise: of variance `1 / tau`
    with `noise_precision` tau, and of variance `noise[t]` in sample `t` if it
    is learned. Its expectation is taken in closed form: `|d|` becomes
    `E|d + noise|`, and the time grows with `T**2`. Without samples the score
    is that of a normal distribution with the same mean and total variance,

        std * (z * (2 * Phi(z) - 1) + 2 * phi(z) - 1 / sqrt(pi)),
        z = (y - mean) / std

    It is a proper score. For a prediction without spread it is the absolute
    error. Outliers weigh less than in the log-likelihood. With few samples the
    fair estimate may be below zero.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or samples
            `[T, rows, outputs]`.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> crps([1.0], [[0.0], [2.0]])
        0.0

    References:
        - [Gneiting and Raftery, 2007](https://doi.org/10.1198/016214506000001437).
        - [Grimit et al., 2006](https://doi.org/10.1256/qj.05.235): mixtures.
        - [Ferro, 2014](https://doi.org/10.1002/qj.2270): the fair estimator.
    """
    return float(np.mean(crps_values(y, prediction)))


def crps_values(y: npt.ArrayLike, prediction: Prediction) -> Float64Array:
    """Returns the `crps` of each row and output, `[rows, outputs]`."""
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        if prediction.samples is None:
            return _of_normal(y, prediction)
    samples = sample_array(prediction)
    target = regression_targets(samples[0], y)
    noise = None
    if isinstance(prediction, Predictive) and knows_noise(prediction):
        noise = functools.partial(_noise_variance, prediction)
    error = np.zeros(target.shape)
    for number, sample in enumerate(samples):
        gap = sample - target
        size = np.abs(gap)
        if noise is not None:
            size = _expected_size(gap, np.sqrt(noise(number)))
        error += size / len(samples)
    spread = _gaps(samples) if noise is None else _noisy_gaps(samples, noise)
    pairs = len(samples) * (len(samples) - 1)
    return np.asarray(error - spread / pairs)


@truth_first
def energy_score(
    y: npt.ArrayLike, prediction: Prediction, seed: int = 0
) -> float:
    """Energy score of the outputs of a row together, mean over the rows.

        ES = E||X - y|| - E||X - X'|| / 2

    for independent draws `X`, `X'` of the predictive. Samples `x[t]` give the
    fair estimate, which is unbiased for every `T`:

        sum{ ||x[t] - y|| : t } / T
            - sum{ ||x[s] - x[t]|| : s, t } / (2 * T * (T - 1))

    The norm is Euclidean, over all outputs of a row: scale outputs of
    different units first. For one output it is the `crps`. For several it also
    measures how outputs vary together. Where the noise is known or learned,
    every sample gets one draw of it, and is then a draw of the predictive. The
    time grows with `T**2`.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression with samples, or samples
            `[T, rows, outputs]`.
        seed: Int, at least 0. Seed of the noise. Not used if the noise is
            not known.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> energy_score([[0.0, 1.0]], [[[0.0, 0.0]], [[0.0, 2.0]]])
        0.0

    References:
        - [Gneiting and Raftery, 2007](https://doi.org/10.1198/016214506000001437),
          section 4.3.
    """
    seed = check_int(seed, "seed", at_least=0)
    samples = sample_array(prediction).astype(np.float64)
    target = regression_targets(samples[0], y)
    if isinstance(prediction, Predictive) and knows_noise(prediction):
        noise = np.random.default_rng(seed).standard_normal(samples.shape)
        for number, sample in enumerate(samples):
            sample += noise[number] / np.sqrt(
                sample_precision(prediction, number)
            )
    flat = samples.reshape(*samples.shape[:2], -1)  # [T, rows, outputs]
    error = np.linalg.norm(flat - target.reshape(flat.shape[1:]), axis=-1)
    gaps = 0.0
    for t in range(1, len(flat)):
        gap = np.linalg.norm(flat[:t] - flat[t], axis=-1)  # [t, rows]
        gaps += float(np.mean(np.sum(gap, axis=0)))
    return float(np.mean(error)) - gaps / (len(flat) * (len(flat) - 1))


def _of_normal(y: npt.ArrayLike, p: Predictive) -> Float64Array:
    """Returns the CRPS of normals with the mean and total variance of `p`."""
    target = regression_targets(p.mean, y)
    variance = p.total.astype(np.float64)
    error = _expected_size(target - p.mean, np.sqrt(variance))
    return np.asarray(error - np.sqrt(variance / math.pi))


def _gaps(samples: Array) -> Float64Array:
    """Returns the sum of `|x[s] - x[t]|` over `s < t`."""
    ordered = np.sort(samples, axis=0).astype(np.float64)
    # Sorted, x[i] is the larger of i pairs and the smaller of T - 1 - i.
    weights = 2 * np.arange(len(samples)) - (len(samples) - 1)
    return np.asarray(np.tensordot(weights, ordered - ordered[0], axes=1))


def _noise_variance(p: Predictive, sample: int) -> Float64Array:
    """Returns the variance of the noise in a sample, `[rows, outputs]`."""
    return np.broadcast_to(1.0 / sample_precision(p, sample), p.mean.shape)


def _noisy_gaps(
    samples: Array, noise: Callable[[int], Float64Array]
) -> Float64Array:
    """Returns the sum of `E|x[s] - x[t] + two noises|` over `s < t`.

    Args:
        samples: Array `[T, rows, outputs]`.
        noise: Maps the number of a sample to the variances of its noise.
    """
    total = np.zeros(samples.shape[1:])
    noises = [noise(0)]
    for t in range(1, len(samples)):
        gap = samples[:t].astype(np.float64) - samples[t]
        own = noise(t)
        std = np.sqrt(np.stack(noises) + own)
        total += _expected_size(gap, std).sum(axis=0)
        noises.append(own)
    return total


def _expected_size(gap: Float64Array, std: Float64Array) -> Float64Array:
    """Returns `E|d|` for `d` normal of mean `gap`.

    E|d| = gap * (2 * Phi(z) - 1) + 2 * std * phi(z),    z = gap / std
    """
    safe = np.where(std > 0, std, 1.0)
    z = gap / safe
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    size = gap * (2 * normal_cdf(z) - 1) + 2 * std * density
    return np.where(std > 0, size, np.abs(gap))
