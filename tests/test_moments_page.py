# SPDX-License-Identifier: Apache-2.0
"""The page on moments shows the committed results, and its code runs."""

import importlib
import pathlib
import re
import sys

import keras
import numpy as np

import keras_bayesdrop as kbd

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1] / "benchmarks"


def _load(name):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


moments_page = _load("moments_page")
TEXT = moments_page.PAGE.read_text("utf-8")


def test_tables_are_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["moments_page.py", "--check"])
    assert moments_page.main() == 0


class Square(keras.layers.Layer):
    def call(self, inputs):
        return inputs**2


def test_code_runs(monkeypatch):
    monkeypatch.setattr(
        kbd.analytic.registry, "_rules", dict(kbd.analytic.registry._rules)
    )
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
    names = {"model": model, "x": np.ones((2, 3), np.float32), "Square": Square}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    assert names["p"].stats.method == "rao_blackwell"
    assert names["p"].stats.variance_reduction > 1
