# SPDX-License-Identifier: Apache-2.0
"""Files of predictions, and pickling."""

import io
import json
import pathlib
import pickle
import warnings
import zipfile

import numpy as np
import pytest

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Binary
from keras_bayesdrop.predictive import Classification
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from tests.predictive.cases import ARRAYS
from tests.predictive.cases import assert_same
from tests.predictive.cases import everything
from tests.predictive.cases import make
from tests.predictive.cases import normal
from tests.predictive.cases import unit


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
def test_save_and_load(task, tmp_path):
    p = everything(task)
    for name in ("p.npz", "no_suffix"):
        p.save(tmp_path / name)
        assert_same(p, Predictive.load(tmp_path / name))
        assert_same(p, Predictive.load(str(tmp_path / name)))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["no_suffix", "p.npz"]


def test_save_and_load_without_what_is_optional(tmp_path):
    p = make("regression", normal((3,), dtype="float64"), keep=False)
    p.save(tmp_path / "p.npz")
    assert_same(p, Predictive.load(tmp_path / "p.npz"))


def test_saving_replaces(tmp_path):
    everything("binary").save(tmp_path / "p.npz")
    p = make("regression", normal((2,)))
    p.save(tmp_path / "p.npz")
    assert_same(p, Predictive.load(tmp_path / "p.npz"))


def test_file_holds_no_pickle(tmp_path):
    everything("classification").save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz", allow_pickle=False) as archive:
        assert {*archive} == {"meta", *ARRAYS}
        assert all(archive[name].dtype.kind in "fiU" for name in archive)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Predictive.load(tmp_path / "nothing.npz")


FILES = pathlib.Path(__file__).with_name("files")
LOAD_ERROR = "Cannot read a prediction.*Expected a whole file.*Received: "


def test_damaged_files(tmp_path):
    path = tmp_path / "p.npz"
    make("regression", normal((2,), 2)).save(path)
    whole = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for end in range(0, len(whole), 17):
            path.write_bytes(whole[:end])
            with pytest.raises(BayesdropError, match=LOAD_ERROR):
                Predictive.load(path)


def test_a_changed_bit_is_refused_or_harmless(tmp_path):
    path = tmp_path / "p.npz"
    p = make("regression", normal((2,), 2))
    p.save(path)
    whole = path.read_bytes()
    # Everywhere at random, and all of the first entry of the zip directory.
    rng = np.random.default_rng(0)
    entry = whole.index(b"PK\x01\x02")
    bits = [*rng.integers(8 * len(whole), size=300)]
    bits += range(8 * entry, 8 * (entry + 46))
    refused = 0
    for bit in bits:
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            loaded = Predictive.load(path)
        except BayesdropError:
            refused += 1
        else:
            assert_same(p, loaded)
    # Zip keeps a checksum of all that counts; the rest is dates and flags.
    assert refused > len(bits) / 2


def test_damaged_compression(tmp_path):
    path = tmp_path / "p.npz"
    make("regression", normal((2,), 2)).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert len(Predictive.load(path)) == 2
    changed = bytearray(path.read_bytes())
    start = changed.index(b"meta.npy") + len(b"meta.npy")
    changed[start : start + 20] = b"\xff" * 20
    path.write_bytes(changed)
    with pytest.raises(BayesdropError, match=LOAD_ERROR + "error: Error -3"):
        Predictive.load(path)


@pytest.mark.parametrize(
    ("name", "head", "method"),
    [
        ("regression", Regression(noise_precision=1 / 3), "sampling"),
        ("classification", Classification(from_logits=False), "sampling"),
        ("binary", Binary(from_logits=False), "sampling"),
        (
            "classification_by_rao_blackwell",
            Classification(from_logits=False),
            "rao_blackwell",
        ),
    ],
)
def test_files_of_format_1(name, head, method, tmp_path):
    """Written, with the answers, by the last version that wrote format 1."""
    p = Predictive.load(FILES / f"{name}_format_1.npz")
    assert p.head == head
    assert p.stats.method == method
    assert p.stats.seed == 2**63 + 5
    assert p.stats.engine[1].reason == "asked for"
    p.save(tmp_path / "p.npz")
    again = Predictive.load(tmp_path / "p.npz")
    assert_same(p, again)
    if method == "sampling":
        assert_same(p, everything(head.task))
    with np.load(FILES / f"{name}_answers.npz") as answers:
        assert len(answers) == (6 if head.task == "regression" else 10)
        for quantity, expected in answers.items():
            ends = dict(zip(("lower", "upper"), p.interval(0.8), strict=True))
            actual = ends.get(quantity)
            if actual is None:
                actual = getattr(p, quantity)
            assert actual.dtype == expected.dtype
            np.testing.assert_array_max_ulp(actual, expected, 4)


def test_a_file_of_an_unknown_head(tmp_path):
    path = tmp_path / "p.npz"
    make("binary", unit((2,), 2)).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    meta = json.loads(arrays.pop("meta").item())
    assert meta["format"] == 2
    assert meta["head"] == {
        "class_name": "Binary",
        "config": {"from_logits": False},
    }
    meta["head"]["class_name"] = "Ranking"
    np.savez(path, meta=np.array(json.dumps(meta)), **arrays)
    with pytest.raises(BayesdropError, match=LOAD_ERROR + ".*`head`"):
        Predictive.load(path)


def test_foreign_files(tmp_path):
    path = tmp_path / "p.npz"

    def refuse(match):
        with pytest.raises(BayesdropError, match=LOAD_ERROR + match):
            Predictive.load(path)

    path.write_bytes(b"hello, world")
    refuse("")
    path.write_bytes(pickle.dumps({"a": 1}))
    refuse("")
    with open(path, "wb") as file:
        np.save(file, np.ones(3))
    refuse("")
    np.savez(path, a=np.ones(3))
    refuse("KeyError")
    np.savez(path, meta=np.array({"format": 1}, dtype=object))
    refuse("ValueError: Object arrays")
    np.savez(path, meta=np.array(json.dumps([1, 2])))
    refuse("TypeError")
    np.savez(path, meta=np.array(json.dumps({"format": 99})))
    refuse("ValueError: format 99")


def test_inconsistent_file(tmp_path):
    path = tmp_path / "p.npz"
    make("regression", normal((2,), 2)).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    wrong = io.BytesIO()
    np.save(wrong, np.ones(3, "float32"))
    parts["variance.npy"] = wrong.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(BayesdropError, match=LOAD_ERROR + ".*`variance`"):
        Predictive.load(path)


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
def test_pickle(task):
    p = everything(task)
    assert_same(p, pickle.loads(pickle.dumps(p)))
