# SPDX-License-Identifier: Apache-2.0
"""Probabilities as logits, and back at another temperature."""

from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Array


def to_logits(p: Array, task: str) -> Array:
    """Returns logits of probabilities, all finite.

    For classes their logarithms, `[..., classes]`; for binary the log odds. A
    probability that was rounded to 0 or 1 counts as the closest that float32
    can tell from it, so that a temperature can still move it.
    """
    floats = np.finfo(np.float32)
    log_p = np.log(np.maximum(p, floats.tiny))
    if task == "classification":
        return np.asarray(log_p)
    return np.asarray(log_p - np.log(np.maximum(1 - p, floats.epsneg / 2)))


def at_temperature(logits: Array, task: str, temperature: float) -> Array:
    """Returns the probabilities at a temperature, in the type of the logits."""
    scaled = logits / logits.dtype.type(temperature)
    if task == "classification":
        shifted = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
    # The exponent is never positive, so that it cannot overflow.
    small = np.exp(-np.abs(scaled))
    return np.asarray(np.where(scaled >= 0, 1, small) / (1 + small))


def log_label_probabilities(
    logits: Array, labels: Any, task: str, temperature: float
) -> Array:
    """Returns the log probability of each label at a temperature.

    Args:
        logits: Array `[..., classes]`, or `[...]` for binary.
        labels: Class numbers `[...]`, or bools for binary.
        task: `"classification"` or `"binary"`.
        temperature: Positive float.
    """
    scaled = logits / logits.dtype.type(temperature)
    if task == "binary":
        against = np.where(labels, -scaled, scaled)
        return np.asarray(-np.logaddexp(0, against))
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(scaled, labels[..., None], axis=-1)[..., 0]
    return np.asarray(chosen - np.log(np.exp(scaled).sum(axis=-1)))
