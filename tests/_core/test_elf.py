# SPDX-License-Identifier: Apache-2.0
"""A library that is cut short is told by its headers, whatever they hold."""

import pathlib
import struct

import hypothesis
import hypothesis.strategies as st
import pytest
import tensorflow as tf

from keras_bayesdrop._core.op_library import _build_info
from keras_bayesdrop._core.op_library import truncation

BUILD = _build_info()
LIBRARIES = [
    *pathlib.Path(tf.sysconfig.get_lib()).glob("libtensorflow_framework.so.?"),
]
if BUILD is not None:
    LIBRARIES.append(pathlib.Path(BUILD.__file__).with_name(BUILD.LIBRARY))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_every_truncation_is_found(library, tmp_path):
    assert truncation(library) == ""
    size = library.stat().st_size
    head = library.read_bytes()[: 2**16]
    path = tmp_path / "cut.so"
    path.write_bytes(head)
    lengths = [*range(4, 200), *range(200, len(head), 997)]
    lengths += [size * part // 50 for part in range(1, 50)]
    lengths += [size - left for left in (1, 2, 63, 64, 4096)]
    for length in lengths:
        # The headers are at the beginning; the rest may be a hole.
        with path.open("r+b") as file:
            file.write(head[:length])
            file.truncate(length)
        told = truncation(path)
        assert f"it is truncated: it has {length} bytes, and needs " in told
        needed = int(told.split()[-1])
        assert length < needed <= size


def test_what_is_no_library_is_left_to_the_loader(tmp_path):
    path = tmp_path / "x.so"
    for content in (b"", b"\x7fEL", b"hello" * 99, b"\x7fELF" + b"\x09" * 99):
        path.write_bytes(content)
        assert truncation(path) == ""


def test_file_that_cannot_be_read(tmp_path):
    assert "cannot be read (No such file" in truncation(tmp_path / "none.so")


def header(bits, order, **fields):
    """A header of ELF with a program header after it."""
    values = {
        "segments_at": 64 if bits == 64 else 52,
        "sections_at": 0,
        "segment_size": 56 if bits == 64 else 32,
        "segments": 1,
        "section_size": 64 if bits == 64 else 40,
        "sections": 0,
        "offset": 0,
        "length": 0,
        **fields,
    }
    v = values
    identity = b"\x7fELF" + bytes([bits // 32, "<>".index(order) + 1, 1])
    word = "Q" if bits == 64 else "I"
    main = struct.pack(
        f"{order}HHI3{word}I6H",
        *(3, 62, 1, 0, v["segments_at"], v["sections_at"], 0),
        *(64, v["segment_size"], v["segments"]),
        *(v["section_size"], v["sections"], 0),
    )
    places = (0, 0, v["length"], 0)
    if bits == 64:
        segment = struct.pack(f"{order}II6Q", 1, 5, v["offset"], *places, 0)
    else:
        segment = struct.pack(f"{order}8I", 1, v["offset"], *places, 5, 0)
    return identity.ljust(16, b"\0") + main + segment


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({}, 0),
        ({"offset": 100, "length": 900}, 1000),
        ({"sections_at": 300, "sections": 10}, (700, 940)),
        ({"segments_at": 999}, (1031, 1055)),
        ({"offset": 2**32 - 1, "length": 2**32 - 1}, 2**33 - 2),
        # Nothing there counts.
        ({"sections_at": 999}, 0),
        ({"segments_at": 999, "segments": 0}, 0),
    ],
)
def test_what_the_headers_name(tmp_path, bits, order, fields, needed):
    if isinstance(needed, tuple):
        needed = needed[bits == 64]
    path = tmp_path / "x.so"
    content = header(bits, order, **fields)
    path.write_bytes(content)
    if not needed:
        assert truncation(path) == ""
        return
    assert truncation(path).endswith(f" and needs {needed}")
    if needed < 2000:
        path.write_bytes(content.ljust(needed, b"\0"))
        assert truncation(path) == ""
        path.write_bytes(content.ljust(needed - 1, b"\0"))
        assert truncation(path) != ""


@hypothesis.settings(max_examples=300)
@hypothesis.given(
    kind=st.sampled_from([1, 2]),
    order=st.sampled_from([1, 2]),
    rest=st.binary(max_size=300),
    small=st.booleans(),
)
def test_garbage_never_raises(tmp_path_factory, kind, order, rest, small):
    path = tmp_path_factory.mktemp("garbage") / "x.so"
    content = bytearray(b"\x7fELF" + bytes([kind, order]) + rest)
    if small and len(content) > 64:
        # Tables that start within the file, so that they are read.
        content[28:48] = bytes(b % 2 for b in content[28:48])
    path.write_bytes(content)
    told = truncation(path)
    assert told == "" or "it is truncated" in told
