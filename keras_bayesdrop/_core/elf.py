# SPDX-License-Identifier: Apache-2.0
"""Tells whether a shared library is whole, without loading it.

The loader of the system maps the parts that the headers name into memory. If
the file ends before them, the first access is a SIGBUS, which no `except`
catches. So the headers are compared with the size of the file first.
"""

import os
import pathlib
import struct
from typing import IO

_MAGIC = b"\x7fELF"
_IDENTITY = 16
# For each class of ELF: the fields of its header after the identity, of a
# program header (offset and size in the file), and the size of the latter.
_HEADERS = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
_SEGMENTS = {1: "I I 8x I 12x", 2: "I 4x Q 16x Q 8x 8x"}
_ORDERS = {1: "<", 2: ">"}
# Any further program headers are counted elsewhere.
_MANY = 0xFFFF


def truncation(path: pathlib.Path) -> str:
    """Says how a shared library is cut short; empty if it is not.

    A file that is not in the ELF format is left to the loader, which says so.

    Args:
        path: The file.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            needed = _needed(file, size)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if needed <= size:
        return ""
    return f"it is truncated: it has {size} bytes, and needs {needed}"


def _needed(file: IO[bytes], size: int) -> int:
    """Bytes up to the end of the last part that the headers name."""
    identity = file.read(_IDENTITY)
    if not identity.startswith(_MAGIC):
        return 0
    if len(identity) < _IDENTITY:
        return _IDENTITY
    kind, order = identity[4], identity[5]
    if kind not in _HEADERS or order not in _ORDERS:
        return 0
    header = struct.Struct(_ORDERS[order] + _HEADERS[kind])
    content = file.read(header.size)
    if len(content) < header.size:
        return _IDENTITY + header.size
    fields = header.unpack(content)
    segments_at, sections_at = fields[4], fields[5]
    segment_size, segments, section_size, sections = fields[8:12]
    needed = max(
        segments_at + segment_size * segments if segments else 0,
        sections_at + section_size * sections if sections else 0,
    )
    segment = struct.Struct(_ORDERS[order] + _SEGMENTS[kind])
    if needed > size or segments == _MANY or segment_size < segment.size:
        return needed
    for number in range(segments):
        file.seek(segments_at + number * segment_size)
        _, offset, length = segment.unpack(file.read(segment.size))
        needed = max(needed, offset + length)
    return needed
