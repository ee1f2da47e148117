# SPDX-License-Identifier: Apache-2.0
"""Levels of quantiles, and exact quantiles of kept samples in pieces."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError

# Of the samples that are read at once. `np.quantile` copies them.
_PIECE_BYTES = 32 << 20


def check_quantile_levels(q: Any) -> Float64Array:
    """Returns a float in `[0, 1]`, or a sequence of them, as an array."""
    levels = np.asarray(q, dtype=np.float64)
    inside = np.all((levels >= 0) & (levels <= 1))
    if levels.ndim > 1 or levels.size == 0 or not inside:
        raise BayesdropError(
            "Invalid value for argument `q`. Expected a float in [0, 1] "
            f"or a sequence of them. Received: q={q}"
        )
    return levels


def quantiles_of(samples: npt.NDArray[Any], levels: Any) -> Any:
    """Returns `np.quantile(samples, levels, axis=0)` in bounded memory.

    Args:
        samples: Array `[samples, ...]`, in memory or memory-mapped.
        levels: Floats in `[0, 1]`.
    """
    if not samples.flags.c_contiguous or not samples.size:
        return np.quantile(samples, levels, axis=0)
    flat = np.asarray(samples).reshape(len(samples), -1)
    return quantiles_in_pieces(
        lambda begin, end: flat[:, begin:end],
        samples.shape,
        samples.dtype.itemsize,
        levels,
    )


def quantiles_in_pieces(
    read: Callable[[int, int], Any],
    shape: tuple[int, ...],
    itemsize: int,
    levels: Any,
) -> Any:
    """Returns quantiles over the first axis of an array that is read in parts.

    Args:
        read: Returns the elements from one number to another, of all samples.
        shape: Of all samples, `[samples, ...]`.
        itemsize: Bytes of a value.
        levels: Floats in `[0, 1]`.
    """
    num_samples, *dims = shape
    elements = int(np.prod(dims))
    width = max(1, _PIECE_BYTES // (num_samples * itemsize))
    whole = np.concatenate(
        [
            np.quantile(read(begin, min(begin + width, elements)), levels, 0)
            for begin in range(0, elements, width)
        ],
        axis=-1,
    )
    return whole.reshape(*np.shape(levels), *dims)
