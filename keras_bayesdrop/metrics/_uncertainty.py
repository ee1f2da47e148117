# SPDX-License-Identifier: Apache-2.0
"""Uncertainties of rows, and what they are compared with."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import finite_numbers


def by_row(name: str, values: npt.ArrayLike) -> Float64Array:
    """Returns finite numbers `[rows]`; a second axis of length 1 is dropped."""
    array = finite_numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.size == 0:
        raise BayesdropError(
            f"Invalid shape of argument `{name}`. Expected one number per "
            f"row, and at least one row. Received: {name}.shape={array.shape}"
        )
    return array


def pair_by_row(
    uncertainty: npt.ArrayLike, name: str, values: npt.ArrayLike
) -> tuple[Float64Array, Float64Array]:
    """Returns uncertainties and what belongs to them, both `[rows]`."""
    first, second = by_row("uncertainty", uncertainty), by_row(name, values)
    if first.shape != second.shape:
        raise BayesdropError(
            f"Invalid shape of argument `{name}`. Expected {first.shape}, as "
            f"of `uncertainty`. Received: {name}.shape={second.shape}"
        )
    return first, second


def is_positive(
    uncertainty: npt.ArrayLike, wrong: npt.ArrayLike
) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
    """Returns uncertainties and which rows they should find, both `[rows]`."""
    values, flags = pair_by_row(uncertainty, "wrong", wrong)
    positive = flags == 1
    if not np.all(positive | (flags == 0)):
        raise BayesdropError(
            "Invalid value for argument `wrong`. Expected only 0 and 1, or "
            f"bools. Received: values from {flags.min()} to {flags.max()}"
        )
    if np.all(positive) or not np.any(positive):
        raise BayesdropError(
            "Cannot tell rows apart that are all alike. Expected both 0 and "
            f"1 in `wrong`. Received: {positive.sum()} of {positive.size} "
            "rows are 1"
        )
    return values, positive
