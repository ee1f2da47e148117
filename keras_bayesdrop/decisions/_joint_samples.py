# SPDX-License-Identifier: Apache-2.0
"""Samples in which the rows belong together."""

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Predictive


def class_samples(predictive: Predictive, method: str) -> Float64Array:
    """Returns probabilities `[T, rows, classes]` that sum to one.

    Args:
        predictive: Classification or binary, with one label per row.
        method: What they are needed for, for the message.
    """
    samples = _joint(predictive, method)
    binary = predictive.task == "binary"
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
    """Returns centred outputs `[T, rows, outputs]` of a regression.

    They are scaled so that the sum of squares over `T` is the variance.
    """
    samples = _joint(predictive, method)
    samples = samples.reshape(*samples.shape[:2], -1)
    scale = np.sqrt(len(samples) - 1)
    return np.asarray((samples - samples.mean(axis=0)) / scale)


def noise_precision(predictive: Predictive, method: str) -> float:
    """Returns `tau`, without which information has no unit."""
    if predictive.noise_precision is None:
        raise BayesdropError(
            f"method={method!r} compares what is not known with the noise of "
            "an observation. Expected a prediction with its precision. "
            "Received: noise_precision=None. Use "
            "head=Regression(noise_precision=tau)."
        )
    return predictive.noise_precision


def check_same_functions(pool: Predictive, targets: Predictive) -> None:
    """Raises unless sample `t` is the same function in both."""
    for name in ("num_samples", "seed"):
        wanted, given = (getattr(p.stats, name) for p in (pool, targets))
        if wanted != given:
            raise BayesdropError(
                "The samples of `targets` are not those of the pool: they "
                "must be the same functions. Expected the same `seed` and "
                f"`num_samples` for both. Received: {name}={wanted} for the "
                f"pool, {name}={given} for the targets"
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
            f"method={method!r} needs the single samples. Expected a "
            "prediction that kept them. Received: samples=None. Use "
            "predict_with_uncertainty(..., return_samples=True)."
        )
    if predictive.stats.masks != "shared":
        raise BayesdropError(
            f"method={method!r} needs to know which rows agree, so a sample "
            "has to be one function for all rows. Expected a prediction with "
            f"masks='shared'. Received: masks={predictive.stats.masks!r}"
        )
    return predictive.samples.astype(np.float64)
