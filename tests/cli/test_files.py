# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be: one line that says what and where."""

import io
import json
import os
import pathlib
import pickle
import sys
import tracemalloc
import zipfile

import h5py
import keras
import numpy as np
import pytest

from keras_bayesdrop._core import limits
from keras_bayesdrop.cli.csv_file import CsvOptions
from keras_bayesdrop.cli.csv_file import read_csv
from keras_bayesdrop.cli.data_file import read_data
from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.errors import BayesdropError
from tests._core import bombs
from tests.cli import files

MB = 10**6


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(text, encoding="utf-8", **options):
    path = pathlib.Path("data.csv")
    path.write_bytes(text.encode(encoding))
    return read_csv(path, CsvOptions(**options)).tolist()


def message(call, *args, **kwargs):
    with pytest.raises(BayesdropError) as caught:
        call(*args, **kwargs)
    text = str(caught.value)
    assert "\n" not in text
    # The three beats.
    assert text.index(". Expected ") < text.index(". Received: ")
    return text


# Tables.


@pytest.mark.parametrize(
    ("text", "options", "desired"),
    [
        ("1,2\n3,4\n", {}, [[1, 2], [3, 4]]),
        ("1,2\n3,4", {"header": True}, [[3, 4]]),
        ("a,2\n3,4\n", {}, [[3, 4]]),
        ("a,b\r\n-1e-3,.5\r\n\r\n", {}, [[-0.001, 0.5]]),
        ('"a, b",c\n"1"," 2 "\n', {}, [[1, 2]]),
        ("1;2\n", {"delimiter": ";"}, [[1, 2]]),
        ("a,b,c\n1,2,x\n", {"columns": ("b", "a")}, [[2, 1]]),
        ("1,2,x\n", {"header": False, "columns": ("2", "1")}, [[2, 1]]),
        # A name comes before a number.
        ("2,1,a\n5,6,7\n", {"columns": ("2",)}, [[5]]),
    ],
)
def test_tables(text, options, desired):
    assert table(text, **options) == desired


def test_mark_of_a_spreadsheet_is_no_name():
    text = "a,b\n1,2\n"
    assert table(text, "utf-8-sig", columns=("a",)) == [[1]]


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("", {}, ["has no rows", "an empty file"]),
        ("\n\n", {}, ["an empty file"]),
        ("a,b\n", {}, ["only a header"]),
        (
            "a,b\n1,2\n\n3,4,5\n",
            {},
            ["is ragged", "Expected 2 cells", "3 in line 4"],
        ),
        ("a,b\n1,2\n3\n", {}, ["1 in line 3"]),
        ("1,2\n3,four\n", {}, ["line 2, column 2", "Received: 'four'"]),
        ("a,b\n1,\n", {}, ["line 2, column 2", "Received: ''"]),
        ("1,2\n3,nan\n", {}, ["not a finite number", "line 2, column 2"]),
        ("1,2\n-inf,3\n", {}, ["line 2, column 1", "'-inf'"]),
        ("1,2\n1_0,3\n", {}, ["line 2, column 1", "'1_0'"]),
        ("a,b\n1,2\n", {"header": False}, ["line 1, column 1", "'a'"]),
        (
            "a,b\n1,2\n",
            {"columns": ("c",)},
            ["no such column", "one of a, b, or a number from 1 to 2"],
        ),
        ("1,2\n", {"columns": ("3",)}, ["a number from 1 to 2"]),
        ("1,2\n", {"columns": ("0",)}, ["--columns 0"]),
        ('1,"2\n', {}, ["is not text"]),
    ],
)
def test_tables_that_are_none(text, options, parts):
    refusal = message(table, text, **options)
    for part in parts:
        assert part in refusal


def test_table_that_is_no_text():
    pathlib.Path("data.csv").write_bytes(b"\xff\xfe\x00\x01")
    text = message(read_csv, pathlib.Path("data.csv"), CsvOptions())
    assert "is not text. Expected UTF-8 text" in text


# Arrays.


def read(name):
    return read_data(name, CsvOptions())


def cut(name):
    whole = pathlib.Path(name).read_bytes()
    pathlib.Path(name).write_bytes(whole[: len(whole) // 2])


class Trap:
    """Unpickling it leaves a file behind."""

    def __reduce__(self):
        return (os.mkdir, ("trapped",))


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_objects_are_never_unpickled(name):
    save = np.save if name.endswith("npy") else np.savez
    save(name, np.array([Trap()], object), allow_pickle=True)
    text = message(read, name)
    assert "holds Python objects" in text
    assert not os.path.exists("trapped")


def test_pickle_by_another_name_is_never_unpickled():
    pathlib.Path("data.npy").write_bytes(pickle.dumps(Trap()))
    assert "not a NumPy file" in message(read, "data.npy")
    assert not os.path.exists("trapped")


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_truncated_arrays(name):
    save = np.save if name.endswith("npy") else np.savez
    save(name, files.data(rows=50))
    cut(name)
    text = message(read, name)
    assert "is truncated, or not a NumPy file" in text
    assert f"{os.path.getsize(name)} bytes" in text


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_empty_file(name):
    pathlib.Path(name).write_bytes(b"")
    assert "0 bytes" in message(read, name)


def test_archive_of_nothing():
    np.savez("data.npz")
    assert "Received: no arrays" in message(read, "data.npz")


def test_damaged_byte_is_found():
    np.savez("data.npz", x=files.data(rows=50))
    whole = bytearray(pathlib.Path("data.npz").read_bytes())
    whole[len(whole) // 2] ^= 1
    pathlib.Path("data.npz").write_bytes(whole)
    assert "truncated, or not" in message(read, "data.npz")


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.ones(2, complex), np.array(["2020"], "M8[Y]")]
)
def test_arrays_that_are_no_numbers(array):
    np.savez("data.npz", x=array)
    text = message(read, "data.npz")
    assert "does not hold numbers" in text
    assert f"array `x` of type {array.dtype}" in text


# Files that claim more than they are, on a machine with much memory.


@pytest.fixture
def low_limit(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 2**50)
    monkeypatch.setattr(limits, "_ALWAYS", 50 * MB)


def test_array_that_unpacks_to_too_much(low_limit):
    np.savez_compressed("data.npz", x=np.zeros((100 * MB) // 4, "float32"))
    assert os.path.getsize("data.npz") < MB
    text = message(read, "data.npz")
    assert text.startswith("`data.npz` would take too much memory. Expected ")
    assert "--max-bytes raises that. Received: 100 MB, from" in text
    data = read_data("data.npz", CsvOptions(), 101 * MB)
    assert data.arrays["x"].nbytes == 100 * MB


def test_array_larger_than_the_machine(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    np.save("data.npy", files.data(rows=50))
    text = message(read, "data.npy")
    assert "Expected at most 500 bytes (50% of the memory" in text
    assert len(read_data("data.npy", CsvOptions(), MB).arrays[""]) == 50


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
@pytest.mark.parametrize(
    "shape", [(10**9, 4), (2**62, 2**62), (2**63, 0), (-1,), (21,)]
)
def test_forged_shape(name, shape):
    array = bombs.npy(shape, content=bytes(80))
    if name == "data.npy":
        pathlib.Path(name).write_bytes(array)
    else:
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("x.npy", array)
    tracemalloc.start()
    try:
        text = message(read, name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "is truncated, or not a NumPy file" in text
    assert f"claims the shape {shape}" in text
    assert peak < 10 * MB


def test_missing_folder_or_unknown():
    assert "no such file in" in message(read, "none.csv")
    assert "no such folder" in message(read, "nowhere/none.csv")
    os.mkdir("data.csv")
    assert "`data.csv` is a folder" in message(read, "data.csv")
    pathlib.Path("data.xlsx").write_text("")
    assert "the suffix '.xlsx'" in message(read, "data.xlsx")


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
