# SPDX-License-Identifier: Apache-2.0
"""The page on moments shows the committed results, and its code runs."""

import sys

import keras
import numpy as np

import keras_bayesdrop as kbd
from tests.benchmarks.benchmark_scripts import script
from tests.docs.pages import run_page

moments_page = script("moments_page")


def test_tables_are_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["moments_page.py", "--check"])
    assert moments_page.main() == 0


class Square(keras.layers.Layer):
    def call(self, inputs):
        return inputs**2


def test_code_runs(monkeypatch):
    monkeypatch.setattr(
        kbd.moments.registry, "_rules", dict(kbd.moments.registry._rules)
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
    run_page("moments.md", names)
    assert names["p"].stats.method == "rao_blackwell"
    assert names["p"].stats.variance_reduction > 1
