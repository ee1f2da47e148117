# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be: one line that says what and where."""

import os
import pathlib
import pickle
import sys
import zipfile

import keras
import numpy as np
import pytest

from keras_bayesdrop.cli.csv_file import CsvOptions
from keras_bayesdrop.cli.csv_file import read_csv
from keras_bayesdrop.cli.data_file import read_data
from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.errors import BayesdropError
from tests.cli import files


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
    found = message(table, text, **options)
    for part in parts:
        assert part in found


def test_table_that_is_no_text():
    pathlib.Path("data.csv").write_bytes(b"\xff\xfe\x00\x01")
    found = message(read_csv, pathlib.Path("data.csv"), CsvOptions())
    assert "is not text. Expected UTF-8 text" in found


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
    found = message(read, name)
    assert "holds Python objects" in found
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
    found = message(read, name)
    assert "is truncated, or not a NumPy file" in found
    assert f"{os.path.getsize(name)} bytes" in found


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
    found = message(read, "data.npz")
    assert "does not hold numbers" in found
    assert f"array `x` of type {array.dtype}" in found


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
    found = message(load_model, "model.keras")
    assert "is truncated, or not a model" in found


def test_damaged_model():
    files.save(files.regression(), "model.keras")
    with zipfile.ZipFile("model.keras") as archive:
        info = archive.getinfo("model.weights.h5")
    whole = bytearray(pathlib.Path("model.keras").read_bytes())
    whole[info.header_offset + info.compress_size // 2] ^= 1
    pathlib.Path("model.keras").write_bytes(whole)
    found = message(load_model, "model.keras")
    assert "a wrong checksum of model.weights.h5" in found


def test_archive_that_is_no_model():
    np.savez("data.npz", x=files.data())
    os.rename("data.npz", "model.keras")
    assert "without config.json" in message(load_model, "model.keras")


@pytest.mark.parametrize("name", ["model.h5", "model.keras"])
def test_legacy_format_is_refused_by_what_it_holds(name):
    import h5py

    with h5py.File(name, "w") as file:
        file["x"] = 1
    found = message(load_model, name)
    assert "legacy HDF5 format, which cannot be loaded safely" in found
    assert "save it as `.keras`" in found


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
    found = message(load_model, "model.keras")
    assert "holds a Lambda layer, which is code" in found
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
    found = message(load_model, "model.keras")
    assert "cannot be loaded" in found
    assert "--import MODULE" in found
    assert "Twice" in found
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
    assert "--task" in warning
    x = files.data()
    np.testing.assert_array_equal(loaded(x), model(x))
