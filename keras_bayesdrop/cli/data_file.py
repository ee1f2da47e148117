# SPDX-License-Identifier: Apache-2.0
"""Reads arrays from `.npy`, `.npz` and `.csv` files. Never unpickles."""

import dataclasses
import pathlib
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.limits import Limit
from keras_bayesdrop._core.limits import check_npy
from keras_bayesdrop._core.limits import check_npz
from keras_bayesdrop.cli.csv_file import CsvOptions
from keras_bayesdrop.cli.csv_file import read_csv
from keras_bayesdrop.cli.problems import check_is_file
from keras_bayesdrop.cli.problems import first_line
from keras_bayesdrop.cli.problems import problem
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import TooLargeError

SUFFIXES = (".npz", ".npy", ".csv")
_EXPECTED = "a `.npz`, `.npy` or `.csv` file of numbers"
_NPY, _ZIP = b"\x93NUMPY", b"PK"
# Errors that reading a damaged or foreign file can raise.
_UNREADABLE = (
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclasses.dataclass(frozen=True)
class Data:
    """The arrays of a file.

    Attributes:
        path: The file.
        arrays: Its arrays by name; an array without a name has `""`.
    """

    path: pathlib.Path
    arrays: dict[str, npt.NDArray[Any]]

    @property
    def is_table(self) -> bool:
        """Returns whether the file is text with a line of numbers per row."""
        return self.path.suffix.lower() == ".csv"


def read_data(
    name: str, options: CsvOptions, max_bytes: int | None = None
) -> Data:
    """Reads a file, or raises an error of one line.

    Args:
        name: The file.
        options: The options for a table.
        max_bytes: The memory that arrays of other files may take; `None` for
            the default.
    """
    path = pathlib.Path(name)
    check_is_file(path, _EXPECTED)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise problem(
            path,
            "does not have a suffix of data",
            _EXPECTED,
            f"the suffix {path.suffix!r}",
        )
    if suffix == ".csv":
        return Data(path, {"": read_csv(path, options)})
    try:
        arrays = _read_numpy(path, Limit(path, max_bytes, "--max-bytes"))
    except TooLargeError:
        raise
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    if not arrays:
        raise problem(path, "is empty", "at least one array", "no arrays")
    for array_name, array in arrays.items():
        _check_array(path, array_name, array)
    return Data(path, arrays)


def _read_numpy(
    path: pathlib.Path, limit: Limit
) -> dict[str, npt.NDArray[Any]]:
    with path.open("rb") as file:
        # The content decides, not the suffix, as in `np.load`.
        head = file.read(len(_NPY))
        file.seek(0)
        if head == _NPY:
            check_npy(file, limit)
        elif head.startswith(_ZIP):
            check_npz(file, limit)
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        return {name: loaded[name] for name in loaded.files}


def _unreadable(path: pathlib.Path, error: Exception) -> BayesdropError:
    text = str(error)
    if "allow_pickle" in text and "Object arrays" in text:
        return problem(
            path,
            "holds Python objects, which are code when they are read",
            "arrays of numbers (`array.astype('float32')` makes one, if it "
            "is not ragged)",
            "an array of type object",
        )
    return problem(
        path,
        "is truncated, or not a NumPy file",
        _EXPECTED,
        f"{path.stat().st_size} bytes ({first_line(error, 100)})",
    )


def _check_array(
    path: pathlib.Path, name: str, array: npt.NDArray[Any]
) -> None:
    if array.dtype.kind not in "fiub":
        of = f"array `{name}` " if name else "an array "
        raise problem(
            path,
            "does not hold numbers",
            "real numbers, whole numbers or bools",
            f"{of}of type {array.dtype}",
        )
