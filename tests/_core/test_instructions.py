# SPDX-License-Identifier: Apache-2.0
"""Only code that is chosen at run time uses what an old processor lacks.

Read from the object files that `make install` leaves: the library itself is
stripped. Two things can go wrong. A file is compiled with flags that are not
for it; or an inline function (a template of the standard library, say) is
compiled in a file for AVX and in another one, and the linker keeps one of the
two for both.
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / f"ops{pathlib.Path(sys.prefix).name}" / "kernels"
OBJECTS = {
    path.name.removesuffix(".cc.o"): path
    for path in sorted(BUILD.glob("CMakeFiles/kbd_*.dir/**/*.cc.o"))
}
WIDE = {name for name in OBJECTS if name.startswith("isa_avx")}

pytestmark = [
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="AVX is of x86-64"
    ),
    pytest.mark.skipif(
        not OBJECTS or not shutil.which("objdump"),
        reason="no object files of `make install`, or no objdump",
    ),
]

# `  1a: vaddps %ymm0,...`: AVX and its kin have names in v, but for the two
# below; wide registers give away the rest.
AVX = re.compile(r"^\s*[0-9a-f]+:\s+(v(?!er[rw]\b)\w+)|%[yz]mm|%k[1-7]\b", re.M)


def tool(*command):
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300
    ).stdout


def avx_lines(path):
    text = tool("objdump", "-d", "--no-show-raw-insn", str(path))
    assert "<" in text, "nothing was disassembled"
    return [line for line in text.splitlines() if AVX.search(line)]


def symbols(path, kinds):
    """Names of a file's symbols of some kinds, as `nm` letters them."""
    lines = (line.split() for line in tool("nm", str(path)).splitlines())
    return {name for *_, kind, name in lines if kind in kinds}


def test_the_files_are_those_we_think():
    assert {"chain", "isa_portable", "build_info"} <= OBJECTS.keys()
    assert WIDE == {"isa_avx2", "isa_avx512"}


@pytest.mark.parametrize("name", sorted(OBJECTS.keys() - WIDE))
def test_runs_on_every_processor(name):
    assert avx_lines(OBJECTS[name])[:5] == []


@pytest.mark.parametrize("name", sorted(WIDE))
def test_the_search_finds_avx_where_it_is(name):
    assert len(avx_lines(OBJECTS[name])) > 100


def test_narrow_set_does_without_the_wide_one():
    lines = avx_lines(OBJECTS["isa_avx2"])
    assert [line for line in lines if re.search(r"%zmm|%k[1-7]\b", line)] == []


@pytest.mark.parametrize("name", sorted(WIDE))
def test_the_linker_merges_nothing_compiled_for_avx(name):
    offered = symbols(OBJECTS[name], "WVu")
    for other in OBJECTS.keys() - {name}:
        wanted = symbols(OBJECTS[other], "WVuUwv")
        assert sorted(offered & wanted) == [], f"{name} and {other}"
