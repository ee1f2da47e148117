# SPDX-License-Identifier: Apache-2.0
"""Checks the memory that the weights of a `.keras` file would take."""

import contextlib
import io
import math
import zipfile
from collections.abc import Iterator
from typing import Any

import h5py
import keras
import tensorflow as tf

from keras_bayesdrop._core.limits import Limit
from keras_bayesdrop._core.limits import check_npz
from keras_bayesdrop.errors import TooLargeError

_WEIGHTS = "model.weights"


def check_weights(archive: zipfile.ZipFile, limit: Limit) -> None:
    """Raises if the arrays of a model's weights take more than a limit.

    The file of the weights may be compressed itself, and hold far more than
    its size.

    Args:
        archive: A `.keras` file, whose members are within the limit.
        limit: For all arrays together.

    Raises:
        TooLargeError: If they do.
        ValueError: If the file of the weights cannot be read.
    """
    for name in archive.namelist():
        if name == f"{_WEIGHTS}.h5":
            with archive.open(name) as member:
                limit.check(_size_of_hdf5(member.read()), "the weights")
        elif name == f"{_WEIGHTS}.npz":
            with archive.open(name) as member:
                check_npz(io.BytesIO(member.read()), limit)


@contextlib.contextmanager
def bounded_variables(limit: Limit) -> Iterator[None]:
    """Bounds the variables created inside, before each is filled.

    A config of a few bytes can describe layers of any size.

    Args:
        limit: For all variables together.

    Raises:
        TooLargeError: If they take more, even if Keras raises another error.
    """
    plain = keras.Variable.__init__
    needed = 0
    refusal: TooLargeError | None = None

    def counted(
        self: Any,
        initializer: Any,
        shape: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        nonlocal needed, refusal
        dtype = args[0] if args else kwargs.get("dtype")
        needed += math.prod(shape or ()) * _bytes_of(dtype)
        try:
            limit.check(needed, "the variables of the model")
        except TooLargeError as error:
            refusal = error
            raise
        plain(self, initializer, shape, *args, **kwargs)

    keras.Variable.__init__ = counted
    try:
        yield
    except Exception:
        if refusal is not None:
            raise refusal from None
        raise
    finally:
        keras.Variable.__init__ = plain


def _bytes_of(dtype: Any) -> int:
    return int(tf.as_dtype(keras.utils.standardize_dtype(dtype)).size)


def _size_of_hdf5(content: bytes) -> int:
    """Returns the bytes of all datasets after unpacking."""
    size = 0

    def add(_: str, item: Any) -> None:
        nonlocal size
        if isinstance(item, h5py.Dataset):
            size += int(item.size or 0) * item.dtype.itemsize

    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            file.visititems(add)
    # A damaged file can raise any error.
    except Exception as error:
        raise ValueError(f"weights that cannot be read: {error}") from error
    return size
