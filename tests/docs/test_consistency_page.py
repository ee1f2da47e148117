# SPDX-License-Identifier: Apache-2.0
"""The page on consistency shows the committed results, and its code runs."""

import re
import sys

import keras
import numpy as np

from tests.benchmarks.benchmark_scripts import script
from tests.docs.pages import blocks_of

consistency_page = script("consistency_page")
TEXT = consistency_page.PAGE.read_text("utf-8")
# Bytes of a picture.
LARGEST = 150_000


def test_tables_are_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["consistency_page.py", "--check"])
    assert consistency_page.main() == 0


def test_an_old_table_is_found(monkeypatch, tmp_path):
    old = tmp_path / "page.md"
    old.write_text(TEXT.replace("| hidden_1 | before |", "| hidden_1 | then |"))
    monkeypatch.setattr(consistency_page, "PAGE", old)
    monkeypatch.setattr(sys, "argv", ["consistency_page.py", "--check"])
    assert consistency_page.main() == 1


def test_pictures_are_there_and_small():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT)
    assert pictures
    for picture in pictures:
        found = (consistency_page.PAGE.parent / picture).read_bytes()
        assert found.startswith(b"\x89PNG")
        assert len(found) < LARGEST


def test_code_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dropout(0.2),
            layers.Dense(4, activation="sigmoid", name="hidden"),
            layers.Dropout(0.5),
            layers.Dense(1, activation="sigmoid", name="output"),
        ]
    )
    model.compile("sgd", "binary_crossentropy")
    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    names = {"model": model, "x": x, "y": np.ones((16, 1)), "x_val": x}
    for block in blocks_of("consistency.md"):
        exec(block.replace("epochs=100", "epochs=1"), names)
    assert "|E - NWGM|" in capsys.readouterr().out
    assert (tmp_path / "phases.png").exists()
