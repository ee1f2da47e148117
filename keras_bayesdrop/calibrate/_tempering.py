# SPDX-License-Identifier: Apache-2.0
"""Logits of probabilities, and predictions at another temperature."""

import dataclasses
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.samples import sample_moments


def to_logits(p: Array, kind: str) -> Array:
    """Returns finite logits of probabilities.

    For classes they are the logarithms, `[..., classes]`; for binary the log
    odds. A probability of 0 or 1 is replaced by the next float32, so that a
    temperature can still change it.

    Args:
        p: Probabilities `[..., classes]`, or `[...]` for binary.
        kind: Kind of an observation, `"class"` or `"label"`.
    """
    floats = np.finfo(np.float32)
    log_p = np.log(np.maximum(p, floats.tiny))
    if kind == "class":
        return np.asarray(log_p)
    return np.asarray(log_p - np.log(np.maximum(1 - p, floats.epsneg / 2)))


def at_temperature(logits: Array, kind: str, temperature: float) -> Array:
    """Returns the probabilities at a temperature, in the type of the logits."""
    scaled = logits / logits.dtype.type(temperature)
    if kind == "class":
        shifted = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
    # The exponent is never positive, so it cannot overflow.
    small = np.exp(-np.abs(scaled))
    return np.asarray(np.where(scaled >= 0, 1, small) / (1 + small))


def log_label_probabilities(
    logits: Array, labels: Any, kind: str, temperature: float
) -> Array:
    """Returns the log probability of each label at a temperature.

    Args:
        logits: Array `[..., classes]`, or `[...]` for binary.
        labels: Class numbers `[...]`, or bools for binary.
        kind: Kind of an observation, `"class"` or `"label"`.
        temperature: Positive float.
    """
    scaled = logits / logits.dtype.type(temperature)
    if kind == "label":
        against = np.where(labels, -scaled, scaled)
        return np.asarray(-np.logaddexp(0, against))
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(scaled, labels[..., None], axis=-1)[..., 0]
    return np.asarray(chosen - np.log(np.exp(scaled).sum(axis=-1)))


def temper_samples(p: Predictive, h: float) -> Predictive:
    """Tempers every sample, and computes the other fields from them."""
    if p.samples is None:
        raise MissingSamplesError(
            "Cannot temper this prediction. Expected samples, as the "
            "temperature was fitted to samples. Received: samples=None. Use "
            "predict_with_uncertainty(..., return_samples=True), or fit the "
            "temperature to predictions without samples."
        )
    kind = p.head.observation
    samples = at_temperature(to_logits(p.samples, kind), kind, h)
    moments = {
        "mean": samples.mean(axis=0, dtype=np.float64),
        "variance": samples.var(axis=0, ddof=1, dtype=np.float64),
    }
    if p.mean_variance is not None:
        wide = samples.astype(np.float64)
        moments = sample_moments(wide, balanced=True)
    return dataclasses.replace(
        p,
        **{
            name: values.astype(getattr(p, name).dtype)
            for name, values in moments.items()
        },
        samples=samples.astype(p.samples.dtype),
        quantile_levels=None,
        quantile_values=None,
        mean_entropy=None,
    )


def temper_mean(p: Predictive, h: float) -> Predictive:
    """Tempers the mean; fields that need samples become `None`."""
    old, kind = p.mean.astype(np.float64), p.head.observation
    new = at_temperature(to_logits(p.mean, kind).astype(np.float64), kind, h)
    spread = old * (1 - old)
    slope = np.divide(
        new * (1 - new), h * spread, out=np.zeros_like(old), where=spread > 0
    )

    def carried(variance: Array) -> Array:
        # A probability with mean m has a variance of at most m * (1 - m).
        moved = np.minimum(variance * slope**2, new * (1 - new))
        return np.asarray(moved, dtype=variance.dtype)

    sampled, of_mean = p.sampled_variance, p.mean_variance
    return dataclasses.replace(
        p,
        mean=new.astype(p.mean.dtype),
        variance=carried(p.variance),
        sampled_variance=None if sampled is None else carried(sampled),
        mean_variance=None if of_mean is None else carried(of_mean),
        samples=None,
        quantile_levels=None,
        quantile_values=None,
        mean_entropy=None,
    )
