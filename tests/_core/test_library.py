# SPDX-License-Identifier: Apache-2.0
"""The op library loads once and late, or says why not and what to do."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import types

import pytest
import tensorflow as tf

from keras_bayesdrop._core import op_library

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = op_library._build_info()

needs_library = pytest.mark.skipif(
    BUILD is None, reason="the op library was not built"
)


@pytest.fixture
def load(monkeypatch):
    """Loads anew, as if nothing had been asked for and no variable were set."""
    monkeypatch.delenv("KBD_LIBRARY", raising=False)
    op_library._load.cache_clear()
    yield op_library.library
    op_library._load.cache_clear()


@pytest.fixture
def pretend(monkeypatch, tmp_path):
    """Returns a function that puts another build in place of the real one."""

    def replace(**changes):
        build = types.ModuleType("_build_info")
        build.__file__ = str(tmp_path / "_build_info.py")
        build.LIBRARY = "libkeras_bayesdrop_ops.so"
        build.TENSORFLOW_VERSION = tf.__version__
        vars(build).update(changes)
        monkeypatch.setattr(op_library, "_build_info", lambda: build)
        return tmp_path / build.LIBRARY

    return replace


def run(program, **variables):
    """Runs a program in a new process; returns what it prints."""
    environment = {k: v for k, v in os.environ.items() if k != "KBD_LIBRARY"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment | variables,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not shutil.which("c++"), reason="there is no compiler")
def test_a_machine_with_a_compiler_has_the_library():
    assert BUILD is not None


@needs_library
def test_loads_when_asked_and_not_before():
    program = """
import pathlib
import keras_bayesdrop
from keras_bayesdrop._core import op_library
def mapped():
    maps = pathlib.Path("/proc/self/maps").read_text()
    return "libkeras_bayesdrop_ops" in maps
print(mapped())
library = op_library.library()
print(mapped(), library.ops is not None, repr(library.problem))
print(op_library.library() is library)
"""
    assert run(program) == ["False", "True True ''", "True"]


@needs_library
def test_loads_from_any_folder(tmp_path):
    moved = shutil.copy(
        pathlib.Path(BUILD.__file__).with_name(BUILD.LIBRARY),
        tmp_path / "moved.so",
    )
    program = """
from keras_bayesdrop._core import op_library
library = op_library.library()
print(library.path, repr(library.problem), library.build)
print(*library.instruction_set())
"""
    path, isa = run(program, KBD_LIBRARY=str(moved), KBD_ISA="portable")
    assert path == f"{moved} '' None"
    assert isa.split() == ["portable"]


@needs_library
def test_names_no_folder_of_the_machine_that_built_it():
    path = pathlib.Path(BUILD.__file__).with_name(BUILD.LIBRARY)
    content = path.read_bytes()
    assert str(ROOT).encode() not in content
    assert str(pathlib.Path(tf.__file__).parent).encode() not in content


@needs_library
def test_threads_share_one_load(load):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        libraries = list(pool.map(lambda _: load(), range(32)))
    assert libraries[0].ops is not None
    assert all(one is libraries[0] for one in libraries)


@needs_library
def test_unknown_instruction_set_is_told():
    program = """
from keras_bayesdrop._core import op_library
print(op_library.library().instruction_set()[1])
"""
    (problem,) = run(program, KBD_ISA="sse9")
    assert problem.startswith("KBD_ISA names no known instruction set")


@needs_library
def test_instruction_set_is_told_inside_a_graph(load):
    library = load()
    names = []

    @tf.function
    def traced():
        names.append(library.instruction_set()[0])
        return tf.constant(0)

    traced()
    assert names[0] in {"portable", "avx2", "avx512"}


@pytest.mark.parametrize("value", ["off", "OFF"])
def test_switched_off(load, monkeypatch, value):
    monkeypatch.setenv("KBD_LIBRARY", value)
    library = load()
    assert library.ops is None
    assert "switched off by the environment variable" in library.problem
    assert "unset it" in library.problem
    assert library.instruction_set() == ("", "")


def test_not_built(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_bayesdrop._core._build_info", None)
    library = load()
    assert library.ops is None
    assert "was not built: no C++ compiler" in library.problem
    assert op_library.REBUILD in library.problem


def test_built_but_missing(load, pretend):
    path = pretend()
    library = load()
    assert library.ops is None
    assert f"is missing: {path}" in library.problem
    assert op_library.REBUILD in library.problem


@pytest.mark.parametrize("version", ["2.17.1", "3.21.0", "2.210.0"])
def test_built_for_another_tensorflow(load, pretend, monkeypatch, version):
    # The check comes before loading: a wrong library may crash the process.
    monkeypatch.setattr(tf, "load_op_library", None)
    pretend(TENSORFLOW_VERSION=version).write_bytes(b"")
    library = load()
    assert library.ops is None
    assert (
        f"built for TensorFlow {version}, and this is TensorFlow "
        f"{tf.__version__}" in library.problem
    )
    assert op_library.REBUILD in library.problem


def test_another_patch_release_is_no_obstacle(load, pretend):
    minor = ".".join(tf.__version__.split(".")[:2])
    pretend(TENSORFLOW_VERSION=f"{minor}.99")
    assert "is missing" in load().problem


def test_broken_file(load, pretend):
    path = pretend()
    path.write_bytes(b"not a library")
    library = load()
    assert library.ops is None
    assert "cannot be loaded" in library.problem
    assert (
        "invalid ELF header" in library.problem
        or "too short" in library.problem
    )
    assert op_library.REBUILD in library.problem


@needs_library
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_truncated_library_is_a_reason_and_no_crash(tmp_path, share):
    path = pathlib.Path(BUILD.__file__).with_name(BUILD.LIBRARY)
    whole = path.read_bytes()
    cut = tmp_path / "cut.so"
    length = int(len(whole) * share)
    cut.write_bytes(whole[:length])
    program = """
from keras_bayesdrop._core import op_library
library = op_library.library()
print(library.ops, library.problem)
"""
    (line,) = run(program, KBD_LIBRARY=str(cut))
    assert line.startswith(
        f"None the op library {cut} cannot be loaded: it is "
    )
    assert f"truncated: it has {length} bytes, and needs " in line
    assert "Expected KBD_LIBRARY=off or the path of an op library" in line


def test_truncated_build_says_how_to_build(load, pretend, monkeypatch):
    monkeypatch.setattr(tf, "load_op_library", None)
    pretend().write_bytes(b"\x7fELF\x02\x01" + bytes(20))
    library = load()
    assert library.ops is None
    assert "it is truncated: it has 26 bytes, and needs 64" in library.problem
    assert op_library.REBUILD in library.problem


def test_variable_names_a_missing_file(load, monkeypatch, tmp_path):
    monkeypatch.setenv("KBD_LIBRARY", str(tmp_path / "none.so"))
    library = load()
    assert library.ops is None
    assert f"is missing: {tmp_path / 'none.so'}" in library.problem
    assert "Expected KBD_LIBRARY=off or the path" in library.problem


def test_variable_names_a_library_of_something_else():
    program = """
from keras_bayesdrop._core import op_library
print(op_library.library().problem)
"""
    # TensorFlow's own framework library is a library, and has no op of ours.
    folder = pathlib.Path(tf.sysconfig.get_lib())
    (path,) = folder.glob("libtensorflow_framework.so.?")
    (problem,) = run(program, KBD_LIBRARY=str(path))
    assert "is not an op library of keras_bayesdrop" in problem
