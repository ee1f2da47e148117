# SPDX-License-Identifier: Apache-2.0
"""The page on pictures: its code runs, its names are there."""

import re

import keras
import matplotlib.pyplot as plt
import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop import plots
from tests.docs.pages import run_page
from tests.docs.pages import text_of
from tests.update_golden import exported

TEXT = text_of("plots.md")


def network(inputs, outputs, activation=None):
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(8, activation="relu"),
            kbd.MCDropout(0.5),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )


def segmenter():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            kbd.MCDropout(0.5),
            keras.layers.Conv2D(3, 3, padding="same", activation="softmax"),
        ]
    )


def forecaster():
    return keras.Sequential(
        [
            keras.Input((20, 1)),
            keras.layers.Flatten(),
            kbd.MCDropout(0.5),
            keras.layers.Dense(12),
        ]
    )


def test_code_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    x, x_new = random.normal(size=(2, 30, 1))
    pixels = random.uniform(size=(40, 64)).astype("float32")
    names = {
        "np": np,
        "model": network(64, 10, "softmax"),
        "line": network(1, 1),
        "x": x,
        "y": np.sin(x),
        "x_new": x_new,
        "y_new": np.sin(x_new),
        "tau": 4.0,
        "x_test": pixels,
        "y_test": random.integers(0, 10, 40),
        "x_strange": pixels[::-1],
        "turned": pixels[:5],
        "angles": [0, 10, 20, 30, 40],
        "segmenter": segmenter(),
        "photos": random.uniform(size=(3, 8, 8, 1)).astype("float32"),
        "forecaster": forecaster(),
        "windows": random.normal(size=(3, 20, 1)).astype("float32"),
    }
    run_page("plots.md", names)
    titles = [plt.figure(n).axes[0].get_title() for n in plt.get_fignums()]
    assert titles == [
        "Reliability",
        "Predictive distribution",
        "Predictions with 90 % intervals",
        "Calibration of 30 targets",
        "Reliability",
        "Risk if only the surest are answered",
        "How unsure the model is",
        "How unsure the model is",
        "50 samples of each row",
        "",  # The map's own titles are those of its panels.
        "Forecast of 6 steps",
    ]
    assert (tmp_path / "reliability.png").stat().st_size > 10_000


def test_every_picture_of_a_prediction_is_mentioned():
    others = {"dropout_phases", "importance_weights"}
    others |= {"scale_curves", "weight_heatmap"}
    public = set(exported(plots))
    for name in public - others:
        assert name in TEXT, name
    for name in re.findall(r"plots\.(\w+)\(", TEXT):
        assert name in public, name
