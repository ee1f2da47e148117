# SPDX-License-Identifier: Apache-2.0
"""Marks the tests whose outcome depends on the engine that runs a plan.

`make test-pure` runs only these without the op library: the others would do
the same again. A test depends on the engine if it asks for the op library, or
starts a Python process, which may. `engine_tests.txt` lists the files of such
tests, and a test of any other file that asks for the library fails.

    KBD_RECORD_ENGINE_TESTS=tests/engine_tests.txt make test

adds the files that are missing from the list.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from keras_bayesdrop._core import op_library

LIST = pathlib.Path(__file__).with_name("engine_tests.txt")
RECORD = os.environ.get("KBD_RECORD_ENGINE_TESTS", "")
FILES = frozenset(LIST.read_text("utf-8").split())

_asked: list[str] = []


def watch() -> None:
    """Notes who asks for the op library, and who starts Python."""
    library, start = op_library.library, subprocess.Popen.__init__

    def watched_library():
        _asked.append("asked for the op library")
        return library()

    def watched_start(self, args, *rest, **kwargs):
        if sys.executable in (args if isinstance(args, list) else [args]):
            _asked.append("started a Python process")
        return start(self, args, *rest, **kwargs)

    op_library.library = watched_library
    subprocess.Popen.__init__ = watched_start


def file_of(item: pytest.Item) -> str:
    """Returns the file of a test, from the folder of the sources."""
    return item.nodeid.partition("::")[0]


def check(item: pytest.Item) -> None:
    """Fails a test that depends on the engine and is not in the list."""
    reasons, name = sorted(set(_asked)), file_of(item)
    _asked.clear()
    # Slow tests are not run without the library.
    if not reasons or name in FILES or item.get_closest_marker("slow"):
        return
    if RECORD:
        with open(RECORD, "a", encoding="utf-8") as record:
            record.write(f"{name}\n")
        return
    pytest.fail(
        f"The test {' and '.join(reasons)}, and {LIST.name} does not list "
        f"{name}. Expected it there, so that it runs without the library too."
    )
