# SPDX-License-Identifier: Apache-2.0
"""Extracts samples that are one function for all rows, and their noise."""

from dataclasses import dataclass

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.sample_noise import knows_noise


@dataclass(frozen=True)
class MeasurementNoise:
    """The noise of measurements of rows.

    Learned noise differs between samples, so that a measurement also tells
    something about the noise itself: its entropy with the mean variance, minus
    the mean entropy over the samples,

        surplus = 1/2 * (log(mean{ noise[t] : t }) - mean{ log(noise[t]) : t })

    It is zero for noise that is known.

    Attributes:
        precision: Array that broadcasts to `[rows, outputs]`, the inverse of
            the mean variance.
        surplus: The same, in nats.
    """

    precision: Float64Array
    surplus: Float64Array

    def flat(self, rows: int) -> "MeasurementNoise":
        """Returns arrays `[rows, outputs]`, with one axis of outputs."""
        return MeasurementNoise(
            self.precision.reshape(rows, -1), self.surplus.reshape(rows, -1)
        )


def class_samples(predictive: Predictive, method: str) -> Float64Array:
    """Returns probabilities `[T, rows, classes]` that sum to one.

    Args:
        predictive: Classification or binary, with one label per row.
        method: Acquisition method, for the error message.
    """
    samples = _joint(predictive, method)
    binary = predictive.head.observation == "label"
    shape = samples.shape[2:]
    if shape not in ((), (1,)) if binary else len(shape) != 1:
        raise BayesdropError(
            f"method={method!r} needs one label per row. Expected a mean of "
            "shape [rows, classes], or [rows] or [rows, 1] for binary. "
            f"Received: shape {predictive.mean.shape}"
        )
    if binary:
        p = samples.reshape(samples.shape[:2])
        samples = np.stack([1.0 - p, p], axis=-1)
    samples = np.clip(samples, 0.0, 1.0)
    return np.asarray(samples / samples.sum(axis=-1, keepdims=True))


def output_samples(predictive: Predictive, method: str) -> Float64Array:
    """Returns centred outputs `[T, rows, outputs]` of numbers.

    Scaled so that the sum of squares over `T` is the variance.
    """
    samples = _joint(predictive, method)
    samples = samples.reshape(*samples.shape[:2], -1)
    scale = np.sqrt(len(samples) - 1)
    return np.asarray((samples - samples.mean(axis=0)) / scale)


def measurement_noise(predictive: Predictive, method: str) -> MeasurementNoise:
    """Returns the noise of measurements, or raises if it is not known.

    Args:
        predictive: Prediction of numbers.
        method: Acquisition method, for the error message.
    """
    if not knows_noise(predictive):
        raise BayesdropError(
            f"method={method!r} compares the uncertainty with the noise of an "
            "observation. Expected a prediction with a noise precision. "
            "Received: noise_precision=None. Use "
            "head=Regression(noise_precision=tau)."
        )
    shape = predictive.mean.shape
    if predictive.noise_variance is None:
        tau = np.asarray(predictive.noise_precision, np.float64)
        return MeasurementNoise(np.broadcast_to(tau, shape), np.zeros(shape))
    if predictive.noise_samples is None:
        raise MissingSamplesError(
            f"method={method!r} needs the noise of each sample, since it is "
            "learned. Expected a prediction that kept its samples. Received: "
            "noise_samples=None. Use predict_with_uncertainty(..., "
            "return_samples=True)."
        )
    logs, total = np.zeros(shape), np.zeros(shape)
    for noise in predictive.noise_samples:
        logs += np.log(noise, dtype=np.float64)
        total += noise
    mean = total / len(predictive.noise_samples)
    logs /= len(predictive.noise_samples)
    # Below zero is rounding.
    return MeasurementNoise(
        1.0 / mean, np.maximum(0.5 * (np.log(mean) - logs), 0.0)
    )


def check_same_functions(pool: Predictive, targets: Predictive) -> None:
    """Raises unless sample `t` is the same function in both predictions."""
    for name in ("num_samples", "seed"):
        expected, received = (getattr(p.stats, name) for p in (pool, targets))
        if expected != received:
            raise BayesdropError(
                "The samples of `targets` and of the pool are different "
                "functions. Expected the same `seed` and `num_samples` for "
                f"both. Received: {name}={expected} for the pool, "
                f"{name}={received} for the targets"
            )
    same = pool.task == targets.task
    if not same or pool.mean.shape[1:] != targets.mean.shape[1:]:
        raise BayesdropError(
            "`targets` is not a prediction of the same model as the pool. "
            f"Expected task={pool.task!r} and outputs of shape "
            f"{pool.mean.shape[1:]}. Received: task={targets.task!r}, "
            f"{targets.mean.shape[1:]}"
        )


def _joint(predictive: Predictive, method: str) -> Float64Array:
    if predictive.samples is None:
        raise MissingSamplesError(
            f"method={method!r} needs the samples. Expected a prediction that "
            "kept them. Received: samples=None. Use "
            "predict_with_uncertainty(..., return_samples=True)."
        )
    if predictive.stats.masks != "shared":
        raise BayesdropError(
            f"method={method!r} compares rows within a sample, so a sample "
            "must be one function for all rows. Expected a prediction with "
            f"masks='shared'. Received: masks={predictive.stats.masks!r}"
        )
    return predictive.samples.astype(np.float64)
