# SPDX-License-Identifier: Apache-2.0
"""The documentation as a whole: every page is found, and its code is run."""

import pathlib
import re
import struct

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.docs.pages import DOCS
from tests.docs.pages import blocks_of
from tests.docs.pages import run_page
from tests.docs.pages import text_of

TESTS = pathlib.Path(__file__).resolve().parents[1]
NAVIGATION = (TESTS.parent / "mkdocs.yml").read_text("utf-8")
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
PICTURES = [
    (page, path)
    for page in PAGES
    for path in re.findall(r"!\[.+?\]\((.*?)\)", text_of(page))
]


def test_every_page_is_in_the_navigation_and_the_index():
    named = re.findall(r"(\w+\.md)$", NAVIGATION, re.MULTILINE)
    assert sorted(named) == PAGES
    linked = set(re.findall(r"\((\w+\.md)\)", text_of("index.md")))
    assert linked | {"index.md"} == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_begins_with_a_question(page):
    first = text_of(page).splitlines()[0]
    assert re.fullmatch(r"# .+\?", first), first


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_are_there(page):
    targets = re.findall(r"\]\(([^)#]+?)(?:#[\w-]+)?\)", text_of(page))
    for target in targets:
        if not target.startswith("https://"):
            assert (DOCS / target).is_file(), target


@pytest.mark.parametrize(("page", "path"), PICTURES)
def test_pictures_are_legible_and_small(page, path):
    data = (DOCS / path).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(data) < 250_000
    width, height = struct.unpack(">II", data[16:24])
    # A column of a web page is some 900 dots wide; some screens show two
    # for each.
    assert 600 <= width <= 1800 and 400 <= height


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)])
def test_code_of_the_page_is_run_by_a_test(page):
    runs = re.compile(rf'(run_page|blocks_of)\(\s*"{re.escape(page)}"')
    assert any(
        runs.search(path.read_text("utf-8")) for path in TESTS.rglob("*.py")
    )


def test_index():
    model = keras.Sequential(
        [keras.Input((3,)), kbd.MCDropout(0.5), keras.layers.Dense(2)]
    )
    names = run_page("index.md", {"model": model, "x": np.ones((4, 3), "f4")})
    assert names["p"].std.shape == (4, 2)


def test_gpu():
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    try:
        run_page("gpu.md", {"tf": tf})
        assert not tf.config.experimental.tensor_float_32_execution_enabled()
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
