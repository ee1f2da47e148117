# SPDX-License-Identifier: Apache-2.0
"""The pages of `docs/`, and the Python in them."""

import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def text_of(page):
    return (DOCS / page).read_text("utf-8")


def blocks_in(text):
    """The blocks of Python of a text, in order."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def blocks_of(page):
    """The blocks of Python of a page, in order."""
    return blocks_in(text_of(page))


def run_page(page, names=None):
    """Runs the blocks of a page one after another; returns their names.

    Args:
        page: File name.
        names: What the page takes for granted, such as `model` and `x`.
    """
    names = {} if names is None else names
    for block in blocks_of(page):
        exec(compile(block, page, "exec"), names)
    return names
