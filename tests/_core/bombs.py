# SPDX-License-Identifier: Apache-2.0
"""Small files that claim to be large."""

import io
import pathlib
import struct
import zipfile
import zlib

import numpy as np


def npy(shape, dtype="<f4", content=b"", version=(1, 0)):
    """An `.npy` file with a header of any shape, and any content after it."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    if version == (1, 0):
        np.lib.format.write_array_header_1_0(file, header)
    else:
        np.lib.format.write_array_header_2_0(file, header)
    whole = bytearray(file.getvalue() + content)
    whole[6:8] = bytes(version)
    return bytes(whole)


def repack(path, changes):
    """Replaces members of a zip archive; `None` takes one out."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts |= changes
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            if content is not None:
                archive.writestr(name, content)


def zeros(path, name, size, head=b""):
    """Adds a deflated member of zeros to an archive, without the memory."""
    mode = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "a", mode) as archive:
        with archive.open(name, "w", force_zip64=True) as member:
            member.write(head)
            left = size - len(head)
            chunk = bytes(2**24)
            while left:
                left -= member.write(chunk[: min(left, len(chunk))])


def lie(path, name, size):
    """Makes the directory of an archive claim a size, with a fitting sum."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(name)
        with archive.open(info) as member:
            checksum = zlib.crc32(member.read(size))
    whole = bytearray(pathlib.Path(path).read_bytes())
    entry = whole.index(b"PK\x01\x02")
    while whole[entry + 46 : entry + 46 + len(name)] != name.encode():
        entry = whole.index(b"PK\x01\x02", entry + 1)
    for at in (entry + 16, info.header_offset + 14):
        whole[at : at + 4] = struct.pack("<I", checksum)
    for at in (entry + 24, info.header_offset + 22):
        whole[at : at + 4] = struct.pack("<I", size)
    pathlib.Path(path).write_bytes(whole)
