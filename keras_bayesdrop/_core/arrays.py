# SPDX-License-Identifier: Apache-2.0
"""Array types, and conversions of arguments to them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError

Array = npt.NDArray[np.floating[Any]]
Float64Array = npt.NDArray[np.float64]


def as_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Returns an argument as an array of numbers, or raises."""
    # A memory-mapped array stays one, because it knows its file.
    array: npt.NDArray[Any] = (
        values if isinstance(values, np.memmap) else np.asarray(values)
    )
    if array.dtype.kind not in "fiub":
        raise BayesdropError(
            f"Invalid value for argument `{name}`. Expected an array of "
            f"numbers. Received: an array of type {array.dtype}"
        )
    return array


def as_floating(array: npt.NDArray[Any]) -> Array:
    """Returns float32 and float64 arrays as they are, others as float32."""
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32)
