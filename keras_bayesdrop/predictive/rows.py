# SPDX-License-Identifier: Apache-2.0
"""The rows of the arrays of a prediction, and selections of them."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive

Rows = int | slice | Sequence[int] | Sequence[bool] | npt.NDArray[Any]

# For each array the axis of its rows; also the arrays that a file holds.
ROW_AXES = {
    "mean": 0,
    "variance": 0,
    "samples": 1,
    "quantile_values": 1,
    "mean_entropy": 0,
    "vote_counts": 0,
    "sampled_variance": 0,
    "num_samples_used": 0,
    "within": 0,
    "between": 0,
    "noise_variance": 0,
    "noise_samples": 1,
    "mean_variance": 0,
}


def join_rows(parts: Sequence["Predictive"]) -> "Predictive":
    """Puts the rows of predictions by the same networks one after another."""
    first = parts[0]
    if len(parts) == 1:
        return first
    changes: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts], axis)
        for name, axis in ROW_AXES.items()
        if getattr(first, name) is not None
    }
    stats = dataclasses.replace(first.stats, num_rows=len(changes["mean"]))
    return dataclasses.replace(first, stats=stats, **changes)


def row_index(rows: Rows, length: int) -> slice | npt.NDArray[Any]:
    """Turns a selection of rows into an index that keeps the axis."""
    if isinstance(rows, slice):
        return rows
    index = np.asarray(rows)
    if index.size == 0 and not isinstance(rows, np.ndarray):
        index = index.astype(np.intp)  # An empty list has no type of its own.
    mask = index.dtype == np.bool_
    whole = np.issubdtype(index.dtype, np.integer)
    if index.ndim > 1 or not (mask or whole) or (mask and index.ndim == 0):
        raise BayesdropError(
            "Invalid selection of rows. Expected a slice, an int, or an "
            "array of ints or bools with one axis. Received: "
            f"{type(rows).__name__} of type {index.dtype} and shape "
            f"{index.shape}"
        )
    if mask and len(index) != length:
        raise BayesdropError(
            f"Invalid selection of rows. Expected a mask of length {length}. "
            f"Received: a mask of length {len(index)}"
        )
    return np.atleast_1d(index)
