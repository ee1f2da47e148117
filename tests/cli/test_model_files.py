# SPDX-License-Identifier: Apache-2.0
"""Model files as input: truncated, damaged, too large, unsafe."""

import io
import json
import os
import pathlib
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest

from keras_bayesdrop._core import limits
from keras_bayesdrop.cli.model_file import load_model
from tests._core import bombs
from tests.cli import files
from tests.cli.messages import message

MB = 10**6


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def cut(name):
    whole = pathlib.Path(name).read_bytes()
    pathlib.Path(name).write_bytes(whole[: len(whole) // 2])


# Files that claim more than they are, on a machine with much memory.
@pytest.fixture
def low_limit(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 2**50)
    monkeypatch.setattr(limits, "_ALWAYS", 50 * MB)


# Models.
def test_model_that_is_missing_or_a_folder():
    assert "no such file in" in message(load_model, "none.keras")
    os.mkdir("model.keras")
    assert "is a folder" in message(load_model, "model.keras")


def test_truncated_model():
    files.save(files.regression(), "model.keras")
    cut("model.keras")
    text = message(load_model, "model.keras")
    assert "is truncated, or not a model" in text


def test_damaged_model():
    files.save(files.regression(), "model.keras")
    with zipfile.ZipFile("model.keras") as archive:
        info = archive.getinfo("model.weights.h5")
    whole = bytearray(pathlib.Path("model.keras").read_bytes())
    whole[info.header_offset + info.compress_size // 2] ^= 1
    pathlib.Path("model.keras").write_bytes(whole)
    text = message(load_model, "model.keras")
    assert "a wrong checksum of model.weights.h5" in text


@pytest.fixture
def never_loaded(monkeypatch):
    monkeypatch.setattr(keras.saving, "load_model", None)


def test_model_that_unpacks_to_too_much(low_limit, never_loaded):
    files.save(files.regression(), "model.keras")
    bombs.repack("model.keras", {"model.weights.h5": None})
    bombs.zeros("model.keras", "model.weights.h5", 100 * MB)
    assert os.path.getsize("model.keras") < MB
    text = message(load_model, "model.keras")
    assert "`model.keras` would take too much memory. Expected at" in text
    assert "--max-bytes raises that. Received: 100 MB, from" in text


def weights_of(shape, **kwargs):
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("layers/dense/vars/0", shape, "float32", **kwargs)
    return content.getvalue()


@pytest.mark.parametrize(
    "kwargs",
    [{"chunks": (10**6,), "compression": "gzip"}, {"chunks": (10**6,)}],
)
def test_weights_that_unpack_to_too_much(low_limit, never_loaded, kwargs):
    files.save(files.regression(), "model.keras")
    weights = weights_of((25 * MB,), **kwargs)
    assert len(weights) < MB
    bombs.repack("model.keras", {"model.weights.h5": weights})
    text = message(load_model, "model.keras")
    assert "Received: 100 MB for the weights, from a file of" in text


def test_weights_in_an_archive_within_the_archive(low_limit, never_loaded):
    files.save(files.regression(), "model.keras")
    inner = io.BytesIO()
    np.savez_compressed(inner, x=np.zeros(25 * MB, "float32"))
    changes = {"model.weights.h5": None, "model.weights.npz": inner.getvalue()}
    bombs.repack("model.keras", changes)
    assert "Received: 100 MB" in message(load_model, "model.keras")


def test_weights_that_cannot_be_read(never_loaded):
    files.save(files.regression(), "model.keras")
    bombs.repack("model.keras", {"model.weights.h5": b"hello"})
    text = message(load_model, "model.keras")
    assert "weights that cannot be read" in text


def test_config_that_asks_for_too_much(low_limit, monkeypatch):
    """The weights are small, and the layers that they are for are not."""
    files.save(files.regression(), "model.keras")
    with zipfile.ZipFile("model.keras") as archive:
        config = json.loads(archive.read("config.json"))
    for layer in config["config"]["layers"]:
        if layer["class_name"] == "Dense":
            layer["config"]["units"] = 5000
            layer.pop("build_config", None)
    text = json.dumps(config)
    bombs.repack("model.keras", {"config.json": text})
    drawn = []
    glorot = keras.initializers.GlorotUniform.__call__
    monkeypatch.setattr(
        keras.initializers.GlorotUniform,
        "__call__",
        lambda self, shape, *args, **kwargs: (
            drawn.append(tuple(shape)) or glorot(self, shape, *args, **kwargs)
        ),
    )
    text = message(load_model, "model.keras")
    assert "Received: 100 MB for the variables of the model, from" in text
    assert drawn == [(4, 5000)]
    # Nothing is left of the bound.
    big = keras.Variable(np.zeros(15 * MB, "float32"))
    assert big.shape == (15 * MB,)


def test_limit_of_a_model_can_be_raised(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    model = files.regression()
    files.save(model, "model.keras")
    assert "--max-bytes raises that" in message(load_model, "model.keras")
    loaded = load_model("model.keras", max_bytes=MB)
    x = files.data()
    np.testing.assert_array_equal(loaded(x), model(x))


def test_archive_that_is_no_model():
    np.savez("data.npz", x=files.data())
    os.rename("data.npz", "model.keras")
    assert "without config.json" in message(load_model, "model.keras")


@pytest.mark.parametrize("name", ["model.h5", "model.keras"])
def test_legacy_format_is_refused_by_what_it_holds(name):
    with h5py.File(name, "w") as file:
        file["x"] = 1
    text = message(load_model, name)
    assert "legacy HDF5 format, which cannot be loaded safely" in text
    assert "save it as `.keras`" in text


def test_other_names_are_refused():
    pathlib.Path("model.pb").write_text("")
    assert "the suffix '.pb'" in message(load_model, "model.pb")


def test_code_of_a_file_is_never_run(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Lambda(
                lambda x: [__import__("os").mkdir("trapped"), x][1],
                output_shape=(1,),
            ),
        ]
    )
    # Building ran it once, here.
    for folder in tmp_path.glob("trapped"):
        folder.rmdir()
    files.save(model, "model.keras")
    text = message(load_model, "model.keras")
    assert "holds a Lambda layer, which is code" in text
    assert not os.path.exists("trapped")


def test_own_layers_come_by_import(tmp_path, monkeypatch):
    source = (
        "import keras\n"
        "@keras.saving.register_keras_serializable('own')\n"
        "class Twice(keras.layers.Layer):\n"
        "    def call(self, x):\n"
        "        return 2 * x\n"
    )
    (tmp_path / "own_layers.py").write_text(source)
    names = {"__name__": "elsewhere"}
    exec(source, names)
    model = keras.Sequential([keras.Input((1,)), names["Twice"]()])
    files.save(model, "model.keras")
    # A process that has never seen the class.
    registered = keras.saving.get_custom_objects()
    registered.pop("own>Twice")
    text = message(load_model, "model.keras")
    assert "cannot be loaded" in text
    assert "--import MODULE" in text
    assert "Twice" in text
    monkeypatch.setattr(sys, "path", [*sys.path])
    loaded = load_model("model.keras", ["own_layers"])
    assert float(loaded(np.ones((1, 1)))[0, 0]) == 2
    assert "Cannot import `nothing_here`" in message(
        load_model, "model.keras", ["nothing_here"]
    )
    registered.pop("own>Twice")


@keras.saving.register_keras_serializable("tests_cli")
def own_loss(y_true, y_pred):
    return keras.ops.mean((y_true - y_pred) ** 2)


def test_unknown_loss_is_not_needed(capsys):
    model = files.regression(loss=own_loss)
    files.save(model, "model.keras")
    registered = keras.saving.get_custom_objects()
    kept = registered.pop("tests_cli>own_loss")
    try:
        loaded = load_model("model.keras")
    finally:
        registered["tests_cli>own_loss"] = kept
    warning = capsys.readouterr().err
    assert warning.startswith("keras-bayesdrop: warning: ")
    assert warning.count("\n") == 1
    assert "--head" in warning
    x = files.data()
    np.testing.assert_array_equal(loaded(x), model(x))
