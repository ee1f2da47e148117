# SPDX-License-Identifier: Apache-2.0
"""Finds, checks and loads the compiled op library at its first use.

The package works without the library, so nothing here raises: a library that
cannot be used comes with the reason and the remedy. The environment variable
`KBD_LIBRARY` is read at the first use: `off` switches the library off, and any
other value is the path of a file to load instead.
"""

import dataclasses
import functools
import importlib
import os
import pathlib
import struct
import threading
import types
from typing import IO

import tensorflow as tf

VARIABLE = "KBD_LIBRARY"
REBUILD = (
    "in the folder of the sources, `pip install scikit-build-core cmake ninja` "
    "and `pip install --no-build-isolation --no-deps --force-reinstall -v .`"
)

_ELF = b"\x7fELF"
_ELF_IDENTITY = 16
# For each class of ELF: the fields of its header after the identity, of a
# program header (offset and size in the file), and the size of the latter.
_ELF_HEADERS = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
_ELF_SEGMENTS = {1: "I I 8x I 12x", 2: "I 4x Q 16x Q 8x 8x"}
_ELF_ORDERS = {1: "<", 2: ">"}
# The count of program headers does not fit here, and is stored elsewhere.
_ELF_MANY = 0xFFFF


@dataclasses.dataclass(frozen=True)
class Library:
    """The op library, or why there is none.

    Attributes:
        ops: Module of the ops, or `None`.
        problem: Why there are no ops, and the remedy; empty if there are.
        path: The file that was loaded or tried; empty if there is none.
        build: The module `_build_info`, which the build wrote; `None` if there
            was no build, or if `KBD_LIBRARY` names another file.
    """

    ops: types.ModuleType | None = None
    problem: str = ""
    path: str = ""
    build: types.ModuleType | None = None

    @property
    def gpu_code(self) -> tuple[str, ...]:
        """The GPU architectures that it has code for, such as `"sm_80"`."""
        if self.ops is None or self.build is None:
            return ()
        return tuple(self.build.CUDA_ARCHITECTURES)

    def instruction_set(self) -> tuple[str, str]:
        """Returns the instruction set in use, and a problem with `KBD_ISA`."""
        if self.ops is None:
            return "", ""
        with tf.init_scope(), tf.device("CPU"):
            text = self.ops.keras_bayesdrop_build().numpy().decode()
        name, _, problem = text.partition(";")
        return name.partition("=")[2], problem.partition("=")[2]


def library() -> Library:
    """Returns the op library; the first call loads it.

    Threads that call at the same time wait for one load, and share its result.
    """
    with _lock:
        return _load()


_lock = threading.Lock()


@functools.cache
def _load() -> Library:
    asked = os.environ.get(VARIABLE, "")
    if asked.lower() == "off":
        return Library(
            problem="the op library is switched off by the environment "
            f"variable {VARIABLE}=off; unset it to switch it on"
        )
    if asked:
        return _open(pathlib.Path(asked).expanduser().absolute(), None)
    build = _build_info()
    if build is None:
        return Library(
            problem="the op library was not built: no C++ compiler or no "
            "TensorFlow was found when keras_bayesdrop was installed, or the "
            "build failed. Install a C++ compiler, then build it: "
            f"{REBUILD}"
        )
    # With an editable install, the build's files are not beside this one.
    path = pathlib.Path(str(build.__file__)).with_name(build.LIBRARY)
    built_for, running = build.TENSORFLOW_VERSION, tf.__version__
    if built_for.split(".")[:2] != running.split(".")[:2]:
        # Loading it might crash: TensorFlow's C++ classes change.
        return Library(
            problem=f"the op library was built for TensorFlow {built_for}, "
            f"and this is TensorFlow {running}. Build it for this one: "
            f"{REBUILD}",
            path=str(path),
            build=build,
        )
    return _open(path, build)


def _open(path: pathlib.Path, build: types.ModuleType | None) -> Library:
    def no(problem: str) -> Library:
        return Library(problem=problem, path=str(path), build=build)

    way_out = (
        f"Install anew: {REBUILD}"
        if build
        else f"Expected {VARIABLE}=off or the path of an op library"
    )
    if not path.is_file():
        return no(f"the file of the op library is missing: {path}. {way_out}")
    damage = truncation(path)
    if damage:
        return no(
            f"the op library {path} cannot be loaded: {damage}. {way_out}"
        )
    try:
        ops = tf.load_op_library(str(path))
    # The package works without the library, whatever is wrong with the file.
    except Exception as error:
        return no(f"the op library cannot be loaded: {error}. {way_out}")
    if not hasattr(ops, "keras_bayesdrop_build"):
        return no(f"{path} is not an op library of keras_bayesdrop. {way_out}")
    return Library(ops, path=str(path), build=build)


def _build_info() -> types.ModuleType | None:
    # By name, because it is in no source tree: the build writes it beside the
    # library that it installs.
    try:
        return importlib.import_module("keras_bayesdrop._core._build_info")
    except ImportError:
        return None


def truncation(path: pathlib.Path) -> str:
    """Says how a shared library is cut short; empty if it is whole.

    The system's loader maps the parts that the headers name into memory. If
    the file ends before them, the first access is a SIGBUS, which no `except`
    catches. So the headers are compared with the size of the file before it
    is loaded. A file that is not in the ELF format is left to the loader,
    which reports it.

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
    """Returns the bytes up to the end of the last part in the headers."""
    identity = file.read(_ELF_IDENTITY)
    if not identity.startswith(_ELF):
        return 0
    if len(identity) < _ELF_IDENTITY:
        return _ELF_IDENTITY
    kind, order = identity[4], identity[5]
    if kind not in _ELF_HEADERS or order not in _ELF_ORDERS:
        return 0
    header = struct.Struct(_ELF_ORDERS[order] + _ELF_HEADERS[kind])
    content = file.read(header.size)
    if len(content) < header.size:
        return _ELF_IDENTITY + header.size
    fields = header.unpack(content)
    segments_at, sections_at = fields[4], fields[5]
    segment_size, segments, section_size, sections = fields[8:12]
    needed = max(
        segments_at + segment_size * segments if segments else 0,
        sections_at + section_size * sections if sections else 0,
    )
    segment = struct.Struct(_ELF_ORDERS[order] + _ELF_SEGMENTS[kind])
    if needed > size or segments == _ELF_MANY or segment_size < segment.size:
        return needed
    for number in range(segments):
        file.seek(segments_at + number * segment_size)
        _, offset, length = segment.unpack(file.read(segment.size))
        needed = max(needed, offset + length)
    return needed
