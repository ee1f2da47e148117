# SPDX-License-Identifier: Apache-2.0
"""Exact quantiles of kept samples, some elements at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

# Of the samples that are read at once. `np.quantile` copies them.
_PIECE_BYTES = 32 << 20


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
