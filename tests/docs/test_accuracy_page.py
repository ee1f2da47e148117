# SPDX-License-Identifier: Apache-2.0
"""The page on accuracy shows the committed results, and its code runs."""

import sys

import keras
import numpy as np
import pytest

from tests.benchmarks.benchmark_scripts import script
from tests.docs.pages import run_page

accuracy_page = script("accuracy_page")


def test_tables_are_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["accuracy_page.py", "--check"])
    assert accuracy_page.main() == 0


def test_an_old_table_is_noticed(monkeypatch, tmp_path):
    text = accuracy_page.PAGE.read_text("utf-8")
    old = tmp_path / "page.md"
    old.write_text(text.replace("| attention | `mean` |", "| then | `mean` |"))
    monkeypatch.setattr(accuracy_page, "PAGE", old)
    monkeypatch.setattr(sys, "argv", ["accuracy_page.py", "--check"])
    assert accuracy_page.main() == 1


def test_error_after_some_time():
    # An error of 8 / sqrt(samples), at a millisecond a sample.
    samples = [16, 64, 256]
    seconds = [0.016, 0.064, 0.256]
    curve = samples, seconds, [2.0, 1.0, 0.5]
    assert accuracy_page.error_in(curve, 0.032) == pytest.approx(2**0.5)
    assert accuracy_page.error_in(curve, 0.256) == pytest.approx(0.5)


def test_code_runs():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dropout(0.2),
            layers.Dense(4, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(1),
        ]
    )
    names = {"model": model, "x": np.ones((2, 3), np.float32)}
    run_page("accuracy.md", names)
    assert names["p"].stats.draws == "balanced"
    assert names["q"].stats.draws == "balanced"
    assert names["q"].stats.variance_reduction > 1
