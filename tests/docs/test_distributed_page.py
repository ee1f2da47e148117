# SPDX-License-Identifier: Apache-2.0
"""The page on several devices and machines: its code runs as it stands."""

import pathlib
import textwrap

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.docs.pages import blocks_of
from tests.helpers import TestCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / "examples" / "distributed" / "ray_data.py").read_text("utf-8")
DEVICES, WORKER, PARTS, PREDICTOR, FLOW = blocks_of("distributed.md")


def test_devices_and_parts():
    names = {}
    for block in (DEVICES, PARTS):
        exec(block, names)
    assert names["p"].mean.shape == (100, 1)
    # This process has one CPU.
    assert names["p"].stats.num_replicas == 1
    assert [len(part.mean) for part in names["parts"]] == [30, 30, 30, 10]


def small_model():
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )


@pytest.mark.slow
def test_worker(tmp_path, monkeypatch):
    """Without `TF_CONFIG` there is one worker; test_workers.py has two."""
    monkeypatch.chdir(tmp_path)
    x = np.ones((3, 4), np.float32)
    np.save("x.npy", x)
    model = small_model()
    model.save("model.keras")
    TestCase().run_in_new_process(WORKER)
    loaded = kbd.Predictive.load("prediction.npz")
    expected = kbd.predict_with_uncertainty(model, x, 50, seed=1, verbose=0)
    np.testing.assert_allclose(loaded.mean, expected.mean, atol=1e-6)


def test_ray_blocks_are_those_of_the_example():
    assert PREDICTOR in SCRIPT
    assert textwrap.indent(FLOW, "    ") in SCRIPT


def test_predictor_takes_rows_from_anywhere(tmp_path):
    """What a worker of Ray runs: rows of several ranges, in any order."""
    method = kbd.Sampling(masks="independent")
    settings = {"seed": 1, "method": method, "verbose": 0}
    names = {"keras": keras, "kbd": kbd, "np": np, "SETTINGS": settings}
    exec(PREDICTOR, names)
    model = small_model()
    model.save(tmp_path / "model.keras")
    x = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
    whole = kbd.predict_with_uncertainty(model, x, **settings)
    rows = np.array([7, 8, 9, 0, 19, 3, 4])
    found = names["Predictor"](tmp_path / "model.keras")(
        {"row": rows, "x": x[rows]}
    )
    np.testing.assert_array_equal(found["row"], rows)
    np.testing.assert_allclose(found["mean"], whole.mean[rows], atol=1e-5)
    np.testing.assert_allclose(found["std"], whole.std[rows], atol=1e-5)
