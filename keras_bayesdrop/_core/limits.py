# SPDX-License-Identifier: Apache-2.0
"""Says how much memory a file would take, before any is taken.

A small archive can hold gigabytes of zeros, and a header can claim any shape.
Sizes are read off the directory of the archive and the headers of the arrays,
and compared with each other and with a limit. NumPy only.
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

# By default a file takes at most this share of the memory that is available,
_SHARE = 0.5
# and at most this, or so many times its own size, whichever is larger.
_ALWAYS = 2**30
_RATIO = 100
# No deflated byte stands for more.
_DEFLATE_RATIO = 1032
_CHUNK = 2**20


def default_limit(size: int) -> int:
    """Bytes of memory that a file of some size on disk may take by default."""
    most = max(_ALWAYS, _RATIO * size)
    available = available_memory()
    return most if available is None else min(int(available * _SHARE), most)


class Limit:
    """How much memory a file may take.

    Args:
        path: The file.
        max_bytes: The limit; `None` for the default.
        way_out: How to raise it, such as `"max_bytes=..."`.
    """

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int | None, way_out: str
    ) -> None:
        self.path = os.fspath(path)
        self.size = os.stat(path).st_size
        self.given = max_bytes is not None
        self.bytes = (
            default_limit(self.size) if max_bytes is None else max_bytes
        )
        self.way_out = way_out

    def check(self, needed: int, what: str = "") -> None:
        """Raises if something takes more.

        Args:
            needed: Bytes of memory.
            what: What of the file needs it; by default all of it.
        """
        if needed <= self.bytes:
            return
        most = f"at most {describe_bytes(self.bytes)}"
        if not self.given:
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
    """Raises if what a zip archive holds takes more than a limit.

    Args:
        archive: Open for reading.
        limit: For all of its members together.

    Raises:
        TooLargeError: If it does.
        ValueError: If the directory of the archive is wrong.
    """
    members = archive.infolist()
    limit.check(sum(member.file_size for member in members))
    for member in members:
        if member.compress_type == zipfile.ZIP_STORED:
            continue
        if member.compress_type != zipfile.ZIP_DEFLATED:
            # Others pack without bound.
            raise ValueError(
                f"an unknown compression ({member.compress_type}) of "
                f"{member.filename}"
            )
        if member.compress_size * _DEFLATE_RATIO > limit.bytes:
            _check_length(archive, member)


def check_npz(file: IO[bytes], limit: Limit) -> None:
    """Raises if the arrays of an `.npz` file take more than a limit.

    Args:
        file: Open at its beginning, where it is left.
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
        file: Open at its beginning, where it is left.
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

    Whoever reads such a member at once gets all of it before the rest is cut.
    """
    longer = copy.copy(member)
    longer.file_size += 1
    del longer.CRC  # Of what the directory says it is.
    length = 0
    with archive.open(longer) as file:
        while chunk := file.read(_CHUNK):
            length += len(chunk)
    if length > member.file_size:
        raise ValueError(
            f"the directory lies about the size of {member.filename}"
        )
