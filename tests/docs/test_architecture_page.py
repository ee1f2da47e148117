# SPDX-License-Identifier: Apache-2.0
"""The page on the architecture: its modules exist, and import each other."""

import pathlib
import re

import pytest

from tests.docs.pages import DOCS
from tests.docs.pages import text_of
from tests.test_imports import ROOMS
from tests.test_imports import full_names

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "keras_bayesdrop"
PAGE = text_of("architecture.md")
WALKS = {
    title: re.findall(r"^\d+\. `([\w/.]+)`", text, re.MULTILINE)
    for title, text in re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
}
OP = "The op, from Python to the loop over tiles"
PYTHON = [title for title in WALKS if title != OP]


def imports_of(path):
    """Returns the files of the package that a file imports, and fronts."""
    files = set()
    for name in full_names(path):
        parts = name.split(".")[1:]
        while parts:
            file = PACKAGE.joinpath(*parts)
            if file.with_suffix(".py").exists():
                files.add(file.with_suffix(".py"))
                break
            if file.is_dir() and file != path.parent:
                files.add(file / "__init__.py")
                break
            parts.pop()
    return files


def reached_from(path):
    """Returns what a file imports, also through the fronts of rooms."""
    direct = imports_of(path)
    for front in [file for file in direct if file.name == "__init__.py"]:
        direct |= imports_of(front)
    return direct


def test_the_walks_are_there():
    assert len(WALKS) == 6
    sampling = next(
        walk for title, walk in WALKS.items() if "Sampling" in title
    )
    assert len(sampling) <= 20


@pytest.mark.parametrize("title", PYTHON)
def test_a_step_is_imported_by_one_before_it(title):
    walk = [PACKAGE / step for step in WALKS[title]]
    missing = [str(step) for step in walk if not step.is_file()]
    assert not missing, missing
    reached = reached_from(walk[0])
    for step in walk[1:]:
        assert step in reached, f"nothing before it imports {step}"
        reached |= reached_from(step)


def test_the_files_of_the_op_include_each_other():
    walk = [ROOT / step for step in WALKS[OP]]
    assert all(step.is_file() for step in walk), walk
    kernels = [step for step in walk if "kernels" in step.parts]
    sources = sorted((ROOT / "kernels").rglob("*.[ch]*"))
    text = "".join(path.read_text("utf-8") for path in sources)
    for step in kernels:
        if step.suffix == ".h":
            name = step.relative_to(ROOT / "kernels")
            assert f'#include "{name}"' in text, name


def test_the_picture_shows_every_room_in_order():
    names = {"__file__": str(DOCS / "rooms_picture.py")}
    exec((DOCS / "rooms_picture.py").read_text("utf-8"), names)
    shown = [room for row in names["ROWS"].values() for room in row]
    rooms = [room for room in ROOMS if room != "__main__"]
    assert shown == rooms[::-1]
