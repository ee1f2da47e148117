# SPDX-License-Identifier: Apache-2.0
"""Keeps all samples, in memory or in `.npy` files.

Their size is known before the first is drawn. A block is written straight to
its place, so that memory holds no more than the array and one block.
"""

import contextlib
import math
import os
import pathlib
import shutil
import struct
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_bayesdrop._core.files import replacing_file
from keras_bayesdrop._core.memory import available_memory
from keras_bayesdrop._core.memory import describe_bytes
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive.quantiles import quantiles_in_pieces
from keras_bayesdrop.predictive.quantiles import quantiles_of

# Room for the header of a `.npy` file: it is written last, when the number of
# rows is known.
_HEADER_BYTES = 256
# Moved at once within a file.
_MOVE_BYTES = 16 << 20


class Size(NamedTuple):
    """The size of an output, as far as it is known before the first sample.

    Attributes:
        outputs: Numbers of a row, or `None`.
        itemsize: Bytes of a number.
        has_quantiles: Whether they are taken if they are asked for.
    """

    outputs: int | None
    itemsize: int
    has_quantiles: bool = True


class KeptSamples:
    """The samples of all outputs of a model.

    Args:
        num_samples: Of each row.
        sizes: Of the outputs.
        paths: Files for the outputs, or `None` for memory.
    """

    def __init__(
        self,
        num_samples: int,
        sizes: Sequence[Size],
        paths: Sequence[pathlib.Path] | None,
    ) -> None:
        self._num_samples = num_samples
        self._sizes = sizes
        self._paths = paths
        self._num_rows = 0
        self.outputs: list[_InMemory | _InFile] = (
            [_InMemory(num_samples) for _ in sizes]
            if paths is None
            else [_InFile(num_samples, path) for path in paths]
        )

    def reserve(self, num_rows: int) -> None:
        """Makes room for so many rows in all, or raises if there is none.

        Called once with all rows, or before each batch of a stream.
        """
        if num_rows <= self._num_rows:
            return
        per_row = self._num_samples * sum(
            size.itemsize * size.outputs
            for size in self._sizes
            if size.outputs is not None
        )
        check_room(
            per_row * (num_rows - self._num_rows),
            None if self._paths is None else self._paths[0].parent,
            lambda: self._describe(num_rows),
        )
        for output in self.outputs:
            output.reserve(num_rows)
        self._num_rows = num_rows

    def open(self, files: contextlib.ExitStack) -> None:
        """Begins the files; they are put in place when `files` is closed."""
        for output in self.outputs:
            output.open(files)

    def close(self, num_rows: int, levels: Sequence[float] | None) -> list[Any]:
        """Ends writing; returns quantiles per output, `None` if not asked for.

        Args:
            num_rows: How many rows there are.
            levels: Of the quantiles, or `None`.
        """
        quantiles = []
        for output, size in zip(self.outputs, self._sizes, strict=True):
            output.close(num_rows)
            wanted = levels is not None and size.has_quantiles
            quantiles.append(output.quantiles(levels or ()) if wanted else None)
        return quantiles

    def _describe(self, num_rows: int) -> str:
        known = [size for size in self._sizes if size.outputs is not None]
        total = self._num_samples * num_rows
        parts = " + ".join(
            f"{size.outputs} outputs x {size.itemsize} bytes" for size in known
        )
        if len(known) > 1:
            parts = f"({parts})"
        each = sum(size.itemsize * (size.outputs or 0) for size in known)
        return (
            f"{self._num_samples} samples x {num_rows} rows x {parts} = "
            f"{describe_bytes(total * each)}"
        )


def check_room(
    size: int, folder: pathlib.Path | None, describe: Callable[[], str]
) -> None:
    """Raises if samples do not fit into memory, or onto a disk.

    Args:
        size: Bytes that are needed beyond what is taken already.
        folder: Where files are written, or `None` for memory.
        describe: Tells the whole size and how it comes about.
    """
    if folder is not None:
        room: int | None = shutil.disk_usage(folder).free
    else:
        room = available_memory()
    if room is None or size <= room:
        return
    if folder is not None:
        raise BayesdropError(
            f"The samples do not fit onto the disk of `{folder}`. Expected at "
            f"most {describe_bytes(room)}, which are free. Received: "
            f"{describe()}. Give a path on a larger disk, or ask for "
            "`quantiles` instead."
        )
    raise BayesdropError(
        "The samples do not fit into memory. Expected at most "
        f"{describe_bytes(room)}, which are available. Received: "
        f"{describe()}. Use return_samples='samples.npy' to keep them in a "
        "file, or ask for `quantiles` instead."
    )


class _InMemory:
    """Samples of one output in memory, an array for each batch of a stream."""

    def __init__(self, num_samples: int) -> None:
        self._num_samples = num_samples
        self._parts: list[tuple[int, int, Any]] = []  # Begin, end, array.
        self._num_rows = 0
        self._array: Any = None

    def open(self, files: contextlib.ExitStack) -> None:
        """Has nothing to open."""

    def reserve(self, num_rows: int) -> None:
        """Makes room for so many rows in all."""
        self._parts.append((self._num_rows, num_rows, None))
        self._num_rows = num_rows

    def write(self, first_sample: int, first_row: int, block: Any) -> None:
        """Takes samples [samples, rows, ...] of rows reserved last."""
        begin, end, array = self._parts[-1]
        if array is None:
            shape = (self._num_samples, end - begin, *block.shape[2:])
            size = math.prod(shape) * block.dtype.itemsize
            # Parts of a stream are joined in the end, one after another.
            factor = 1 if len(self._parts) == 1 else 2
            check_room(factor * size, None, lambda: _product(shape, block))
            array = np.empty(shape, block.dtype)
            self._parts[-1] = (begin, end, array)
        row = first_row - begin
        array[
            first_sample : first_sample + len(block),
            row : row + block.shape[1],
        ] = block

    def close(self, num_rows: int) -> None:
        """Brings the samples of so many rows into one array."""
        (_, _, first), *rest = self._parts
        if not rest:
            self._array = _cut_rows(first, num_rows)
            return
        shape = (len(first), num_rows, *first.shape[2:])
        del first, rest
        self._array = np.empty(shape, self._parts[0][2].dtype)
        while self._parts:
            begin, end, array = self._parts.pop(0)
            if begin < num_rows:
                self._array[:, begin:end] = array

    def quantiles(self, levels: Sequence[float]) -> Any:
        """Returns quantiles [levels, rows, ...] of all samples."""
        return quantiles_of(self._array, levels)

    def array(self) -> Any:
        """Returns the samples [samples, rows, ...]."""
        return self._array


def _cut_rows(array: Any, num_rows: int) -> Any:
    """Returns the first rows [samples, rows, ...], moved within the array."""
    num_samples, length, *dims = array.shape
    if length == num_rows:
        return array
    flat = array.reshape(-1)
    old, new = length * math.prod(dims), num_rows * math.prod(dims)
    for sample in range(num_samples):
        begin = sample * old
        flat[sample * new : (sample + 1) * new] = flat[begin : begin + new]
    return flat[: num_samples * new].reshape(num_samples, num_rows, *dims)


class _InFile:
    """Samples of one output in a `.npy` file.

    The file is written, not mapped: what is mapped counts as memory of the
    process. It holds room for `capacity` rows of each sample; a stream that
    has more rows gets twice the room, and values move within the file.
    """

    def __init__(self, num_samples: int, path: pathlib.Path) -> None:
        self._num_samples = num_samples
        self._path = path
        self._file = -1
        self._num_rows = 0  # Reserved.
        self._capacity = 0
        self._dims: tuple[int, ...] | None = None
        self._dtype: Any = None

    def open(self, files: contextlib.ExitStack) -> None:
        """Begins the file, beside the one that it replaces in the end."""
        part = files.enter_context(replacing_file(self._path))
        self._file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        files.callback(os.close, self._file)

    def reserve(self, num_rows: int) -> None:
        """Makes room for so many rows in all."""
        if num_rows > self._capacity:
            grown = 2 * self._capacity if self._capacity else 0
            self._resize(max(num_rows, grown))
        self._num_rows = num_rows

    def write(self, first_sample: int, first_row: int, block: Any) -> None:
        """Takes samples [samples, rows, ...]."""
        if self._dims is None:
            self._dims, self._dtype = block.shape[2:], block.dtype
            shape = (self._num_samples, self._capacity, *self._dims)
            size = math.prod(shape) * block.dtype.itemsize
            folder = self._path.parent
            check_room(size, folder, lambda: _product(shape, block))
            self._allocate()
        for number, sample in enumerate(block, first_sample):
            data = np.ascontiguousarray(sample).data.cast("B")
            self._put(data, self._place(number, first_row))

    def close(self, num_rows: int) -> None:
        """Leaves room for so many rows, and says so in the header."""
        self._num_rows = num_rows
        self._resize(num_rows)
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": self._shape,
        }
        length = _HEADER_BYTES - 10
        text = repr(header).ljust(length - 1) + "\n"
        magic = np.lib.format.magic(1, 0) + struct.pack("<H", length)
        self._put(memoryview(magic + text.encode("latin1")), 0)

    def quantiles(self, levels: Sequence[float]) -> Any:
        """Returns quantiles [levels, rows, ...] of all samples."""
        itemsize = self._dtype.itemsize

        def read(begin: int, end: int) -> Any:
            values = np.empty((self._num_samples, end - begin), self._dtype)
            for number, row in enumerate(values):
                place = self._place(number, 0) + begin * itemsize
                self._get(row.data.cast("B"), place)
            return values

        return quantiles_in_pieces(read, self._shape, itemsize, levels)

    def array(self) -> Any:
        """Returns the samples [samples, rows, ...], memory-mapped."""
        return np.load(self._path, mmap_mode="r", allow_pickle=False)

    @property
    def _shape(self) -> tuple[int, ...]:
        assert self._dims is not None
        return (self._num_samples, self._capacity, *self._dims)

    def _place(self, sample: int, row: int) -> int:
        """Returns where a row of a sample begins in the file."""
        assert self._dims is not None
        row_bytes = math.prod(self._dims) * self._dtype.itemsize
        return _HEADER_BYTES + int((sample * self._capacity + row) * row_bytes)

    def _allocate(self) -> None:
        """Takes all of the room, so that a full disk is an error at once."""
        end = self._place(self._num_samples, 0)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file, 0, end)
        os.ftruncate(self._file, end)

    def _resize(self, capacity: int) -> None:
        """Moves the rows there are to where they are with another capacity."""
        if self._dims is None:
            self._capacity = capacity
            return
        places = [self._place(n, 0) for n in range(self._num_samples)]
        rows = min(self._num_rows, capacity)
        size = self._place(0, rows) - places[0]
        grows = capacity > self._capacity
        self._capacity = capacity
        if grows:
            self._allocate()
        order = range(self._num_samples)
        for number in reversed(order) if grows else order:
            self._move(places[number], self._place(number, 0), size)
        if not grows:
            os.ftruncate(self._file, self._place(self._num_samples, 0))

    def _move(self, source: int, target: int, size: int) -> None:
        if source == target:
            return
        # Forwards: source and target overlap if rows move down, but not if
        # they move up, for then the room has at least doubled.
        for begin in range(0, size, _MOVE_BYTES):
            data = bytearray(min(_MOVE_BYTES, size - begin))
            self._get(memoryview(data), source + begin)
            self._put(memoryview(data), target + begin)

    def _get(self, data: memoryview, place: int) -> None:
        while data:
            number = os.preadv(self._file, [data], place)
            if not number:
                raise OSError(f"`{self._path}` ends before its samples do.")
            data, place = data[number:], place + number

    def _put(self, data: memoryview, place: int) -> None:
        while data:
            number = os.pwrite(self._file, data, place)
            data, place = data[number:], place + number


def _product(shape: tuple[int, ...], block: Any) -> str:
    """Returns the size of an array as it comes about."""
    samples, rows, *dims = shape
    outputs, itemsize = math.prod(dims), block.dtype.itemsize
    return (
        f"{samples} samples x {rows} rows x {outputs} outputs x {itemsize} "
        f"bytes = {describe_bytes(math.prod(shape) * itemsize)}"
    )
