# SPDX-License-Identifier: Apache-2.0
"""Array files as input: truncated, damaged, forged, too large."""

import os
import pathlib
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from keras_bayesdrop._core import limits
from keras_bayesdrop.cli.csv_file import CsvOptions
from keras_bayesdrop.cli.data_file import read_data
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


# Arrays.
def read(name):
    return read_data(name, CsvOptions())


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
