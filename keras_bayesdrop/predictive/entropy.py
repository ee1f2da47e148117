# SPDX-License-Identifier: Apache-2.0
"""Entropies and votes of probabilities."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array


def entropy_of(probabilities: Array, task: str) -> Float64Array:
    """Entropy in nats: over the last axis, or of each number if binary."""
    p = np.clip(probabilities.astype(np.float64), 0.0, 1.0)
    if task == "binary":
        return -(x_log_x(p) + x_log_x(1.0 - p))
    return np.asarray(-x_log_x(p).sum(axis=-1))


def x_log_x(x: Float64Array) -> Float64Array:
    """Returns `x * log(x)`, which is 0 at 0."""
    return x * np.log(np.where(x > 0, x, 1.0))


def count_votes(samples: Array, task: str) -> npt.NDArray[Any]:
    """How many samples vote for each class (binary: for the class 1)."""
    if task == "binary":
        return np.asarray(np.sum(samples >= 0.5, axis=0))
    classes = samples.shape[-1]
    votes = np.argmax(samples, axis=-1).reshape(len(samples), -1)
    cells = votes + classes * np.arange(votes.shape[1])  # [T, labels]
    counts = np.bincount(cells.ravel(), minlength=classes * votes.shape[1])
    return counts.reshape(samples.shape[1:])
