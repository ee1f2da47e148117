# SPDX-License-Identifier: Apache-2.0
"""Groups of rows that a caller names: integers or strings, one per row."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError

# A message names no more groups than this.
_NAMED = 5

Groups = tuple[int | str, ...]


def check_groups(groups: npt.ArrayLike, rows: int) -> npt.NDArray[Any]:
    """Returns the group of each row, `[rows]`, as int64 or as text."""
    # As objects, because NumPy turns a list of text and NaN into text.
    listed = isinstance(groups, list | tuple)
    array = np.asarray(groups, dtype=object if listed else None)
    if array.shape == (rows, 1):
        array = array[:, 0]
    if array.shape != (rows,):
        raise BayesdropError(
            "Invalid shape of argument `groups`. Expected one group per row, "
            f"({rows},). Received: groups.shape={array.shape}"
        )
    kinds = array.dtype.name
    if array.dtype.kind == "O":
        # Columns of tables hold Python objects.
        values = array.tolist()
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        if all(isinstance(value, str) for value in values):
            return array.astype(str)
        if all(isinstance(value, Integral | np.bool_) for value in values):
            array = np.array([int(value) for value in values])
    if array.dtype.kind in "UT":
        return array.astype(str)
    whole = array.dtype.kind in "biu"
    if not whole or np.any(array > np.iinfo(np.int64).max):
        raise BayesdropError(
            "Invalid value for argument `groups`. Expected integers of 64 "
            "bits, or strings, one per row. Received: values of type "
            f"{kinds}"
        )
    return array.astype(np.int64)


def name_groups(
    groups: npt.NDArray[Any],
) -> tuple[Groups, npt.NDArray[np.intp]]:
    """Returns the names of the groups, sorted, and each row's number."""
    names, numbers = np.unique(groups, return_inverse=True)
    return tuple(names.tolist()), numbers.reshape(-1)


def read_groups(names: Sequence[int | str] | None) -> Groups | None:
    """Returns the names of groups as a tuple, or raises."""
    if names is None:
        return None
    array = check_groups(np.asarray(names, dtype=object), len(names))
    if array.size == 0 or len(np.unique(array)) != array.size:
        raise BayesdropError(
            "Invalid value for argument `groups`. Expected `None`, or the "
            f"names of the groups, each once. Received: {_list(names)}"
        )
    return tuple(array.tolist())


def group_numbers(
    groups: npt.ArrayLike | None, names: Groups | None, rows: int
) -> npt.NDArray[np.intp] | None:
    """Returns each row's number of its group; `None` if there are no groups.

    Args:
        groups: Group of each row of a new prediction.
        names: Groups of the calibration.
        rows: Number of rows of the prediction.
    """
    if names is None and groups is None:
        return None
    if names is None:
        raise BayesdropError(
            "The calibration has no groups. Expected groups=None, or `groups` "
            "in `calibrate.conformal` too. Received: `groups` for "
            f"{rows} rows"
        )
    if groups is None:
        raise BayesdropError(
            "The calibration has a threshold for each group. Expected the "
            "group of each row in `groups`. Received: groups=None"
        )
    values = check_groups(groups, rows).tolist()
    numbers = {name: number for number, name in enumerate(names)}
    unknown = sorted({value for value in values if value not in numbers})
    if unknown:
        raise BayesdropError(
            "Unknown groups in argument `groups`. Expected groups of the "
            f"calibration: {_list(names)}. Received: {_list(unknown)}"
        )
    return np.array([numbers[value] for value in values], dtype=np.intp)


def _list(names: Sequence[Any]) -> str:
    """Returns the first names as text."""
    text = ", ".join(repr(name) for name in names[:_NAMED])
    return text + (", ..." if len(names) > _NAMED else "")
