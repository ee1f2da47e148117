# SPDX-License-Identifier: Apache-2.0
"""Limits on the memory that a file may take, checked before it is read.

A small archive can hold gigabytes of zeros, and a header can claim any shape.
The checks read sizes from the directory of the archive and from the headers of
the arrays, and compare them with each other and with a limit. NumPy only.
"""

import copy
import os
import sys
import zipfile
from typing import IO

import numpy as np

from keras_bayesdrop._core.memory import available_memory
from keras_bayesdrop._core.memory import describe_bytes
from keras_bayesdrop.errors import TooLargeError

# By default a file takes at most this share of the available memory,
_SHARE = 0.5
# and at most this many bytes, or this many times its own size if that is more.
_ALWAYS = 2**30
_RATIO = 100
# One deflated byte unpacks to at most this many bytes.
_DEFLATE_RATIO = 1032
_CHUNK = 2**20


def default_limit(size: int) -> int:
    """Returns the bytes of memory that a file may take by default.

    Args:
        size: Bytes of the file on disk.
    """
    most = max(_ALWAYS, _RATIO * size)
    available = available_memory()
    return most if available is None else min(int(available * _SHARE), most)


class Limit:
    """The memory that a file may take.

    Args:
        path: The file.
        max_bytes: The limit; `None` for the default.
        way_out: The option that raises the limit, such as `"max_bytes"`.
    """

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int | None, way_out: str
    ) -> None:
        self.path = os.fspath(path)
        self.size = os.stat(path).st_size
        self.is_default = max_bytes is None
        self.bytes = (
            default_limit(self.size) if max_bytes is None else max_bytes
        )
        self.way_out = way_out

    def check(self, needed: int, what: str = "") -> None:
        """Raises if more memory is needed than the limit.

        Args:
            needed: Bytes of memory.
            what: The part of the file that needs them; by default all of it.
        """
        if needed <= self.bytes:
            return
        most = f"at most {describe_bytes(self.bytes)}"
        if self.is_default:
            most += (
                f" ({_SHARE:.0%} of the memory that is available, and no more "
                f"than {describe_bytes(_ALWAYS)} or {_RATIO} times the size of "
                "the file)"
            )
        of = f" for {what}" if what else ""
        raise TooLargeError(
            f"`{self.path}` would take too much memory. Expected {most}; "
            f"{self.way_out} raises that. Received: {describe_bytes(needed)}"
            f"{of}, from a file of {describe_bytes(self.size)}"
        )


def check_archive(archive: zipfile.ZipFile, limit: Limit) -> None:
    """Raises if the members of a zip archive take more than a limit.

    Args:
        archive: Open for reading.
        limit: For all of its members together.

    Raises:
        TooLargeError: If they do.
        ValueError: If the directory of the archive is wrong.
    """
    members = archive.infolist()
    limit.check(sum(member.file_size for member in members))
    for member in members:
        if member.compress_type == zipfile.ZIP_STORED:
            continue
        if member.compress_type != zipfile.ZIP_DEFLATED:
            # Other compressions have no bound on their ratio.
            raise ValueError(
                f"an unknown compression ({member.compress_type}) of "
                f"{member.filename}"
            )
        if member.compress_size * _DEFLATE_RATIO > limit.bytes:
            _check_length(archive, member)


def check_npz(file: IO[bytes], limit: Limit) -> None:
    """Raises if the arrays of an `.npz` file take more than a limit.

    Args:
        file: Open at its beginning, and returned to it.
        limit: For all arrays together.

    Raises:
        TooLargeError: If they do.
        ValueError: If a header claims more than there is.
    """
    with zipfile.ZipFile(file) as archive:
        check_archive(archive, limit)
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    _check_header(array, member.file_size, member.filename)
    file.seek(0)


def check_npy(file: IO[bytes], limit: Limit) -> None:
    """Raises if the array of an `.npy` file takes more than a limit.

    Args:
        file: Open at its beginning, and returned to it.
        limit: For the array.

    Raises:
        TooLargeError: If it does.
        ValueError: If the header claims more than there is.
    """
    _check_header(file, limit.size, "the file")
    limit.check(limit.size)
    file.seek(0)


def _check_header(file: IO[bytes], size: int, name: str) -> None:
    """Raises if the header of an array claims more bytes than there are."""
    version = np.lib.format.read_magic(file)
    # Version 3 differs from 2 in the encoding of names only.
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    claimed = dtype.itemsize
    for length in shape:
        if not 0 <= length <= sys.maxsize:
            raise ValueError(f"{name} claims the shape {shape}")
        claimed *= int(length)
    there = size - file.tell()
    if claimed > there and not dtype.hasobject:
        raise ValueError(
            f"{name} claims the shape {shape} and type {dtype}, which is "
            f"{claimed} bytes, and holds {there}"
        )


def _check_length(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raises if a deflated member is longer than its directory says.

    Reading such a member at once would unpack all of it before it is cut.
    """
    longer = copy.copy(member)
    longer.file_size += 1
    del longer.CRC  # It belongs to the length in the directory.
    length = 0
    with archive.open(longer) as file:
        while chunk := file.read(_CHUNK):
            length += len(chunk)
    if length > member.file_size:
        raise ValueError(
            f"the directory lies about the size of {member.filename}"
        )
