# SPDX-License-Identifier: Apache-2.0
"""Samples that are kept: in memory if they fit, or in `.npy` files."""

import os
import pathlib
import types

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.prediction.sampling import kept_samples
from tests.helpers import flat
from tests.prediction.refusals import refuse
from tests.prediction.test_collect import two_outputs

X = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3),
        ]
    )


def predict(model, x=X, **arguments):
    settings = {
        "num_samples": 20,
        "seed": 3,
        "verbose": 0,
        "batch_size": 4,
        **arguments,
    }
    return kbd.predict_with_uncertainty(model, x, **flat(**settings))


def batches():
    """A stream of batches of different lengths."""
    for begin, end in ((0, 2), (2, 9), (9, 10), (10, 18), (18, 23)):
        yield (X[begin:end],)


def left(folder):
    """Names in a folder."""
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("stream", [False, True])
def test_in_a_file(model, tmp_path, masks, stream):
    wanted = predict(model, masks=masks, return_samples=True)
    path = tmp_path / "samples.npy"
    x = batches() if stream else X
    p = predict(model, x, masks=masks, return_samples=str(path))
    assert isinstance(p.samples, np.memmap)
    assert pathlib.Path(p.samples.filename) == path
    np.testing.assert_allclose(p.samples, wanted.samples, 1e-5, 1e-6)
    if not stream:
        np.testing.assert_array_equal(p.samples, wanted.samples)
    loaded = np.load(path)
    assert loaded.dtype == np.float32
    np.testing.assert_array_equal(loaded, p.samples)
    assert left(tmp_path) == ["samples.npy"]
    with pytest.raises(ValueError, match="read-only"):
        p.samples[0] = 0


def test_a_stream_in_memory(model):
    wanted = predict(model, return_samples=True)
    p = predict(model, batches(), return_samples=True)
    assert p.samples.flags.c_contiguous
    np.testing.assert_allclose(p.samples, wanted.samples, 1e-5, 1e-6)
    np.testing.assert_allclose(
        p.samples.mean(axis=0), p.mean, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kept", [True, "samples.npy"])
def test_quantiles_are_those_of_all_samples(model, tmp_path, monkeypatch, kept):
    monkeypatch.chdir(tmp_path)
    # Pieces of 13 elements.
    monkeypatch.setattr(
        "keras_bayesdrop.predictive.quantiles._PIECE_BYTES", 4 * 20 * 13
    )
    levels = (0.05, 0.5, 1.0)
    p = predict(model, return_samples=kept, quantiles=levels)
    wanted = np.quantile(np.asarray(p.samples), levels, axis=0)
    np.testing.assert_array_equal(p.quantile_values, wanted)
    np.testing.assert_array_equal(p.quantile(levels), wanted.astype("f"))
    np.testing.assert_array_equal(p.quantile(0.5), wanted[1].astype("f"))


@pytest.mark.parametrize("kept", [True, "samples.npy"])
@pytest.mark.parametrize("how", ["steps", "callback"])
def test_rows_that_are_not_reached(model, tmp_path, monkeypatch, kept, how):
    monkeypatch.chdir(tmp_path)
    # Moves within a file in several parts.
    monkeypatch.setattr(kept_samples, "_MOVE_BYTES", 40)

    class Stop(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            self.model.stop_predicting = batch == 2

    arguments = {"steps": 3} if how == "steps" else {"callbacks": [Stop()]}
    wanted = predict(model, return_samples=True).samples
    p = predict(model, return_samples=kept, quantiles=[0.3, 0.7], **arguments)
    assert p.samples.shape == (20, 12, 3)
    np.testing.assert_array_equal(p.samples, wanted[:, :12])
    np.testing.assert_array_equal(
        p.quantile_values, np.quantile(wanted[:, :12], [0.3, 0.7], axis=0)
    )
    if kept is not True:
        assert np.load("samples.npy").shape == (20, 12, 3)


def test_a_file_that_grows(model, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_samples, "_MOVE_BYTES", 28)
    path = tmp_path / "samples.npy"
    rows = [(X[n : n + 1],) for n in range(23)]
    p = predict(model, (row for row in rows), return_samples=path)
    wanted = predict(model, return_samples=True, batch_size=1).samples
    np.testing.assert_allclose(p.samples, wanted, 1e-5, 1e-6)
    assert path.stat().st_size == 256 + wanted.nbytes


def test_a_file_for_each_output(tmp_path):
    model = two_outputs()
    x = np.ones((7, 6), np.float32)
    p = predict(model, x, return_samples=tmp_path / "s.npy")
    wanted = predict(model, x, return_samples=True)
    assert left(tmp_path) == ["s.few.npy", "s.many.npy"]
    for name in ("few", "many"):
        np.testing.assert_array_equal(p[name].samples, wanted[name].samples)
        file = pathlib.Path(p[name].samples.filename)
        assert file == tmp_path / f"s.{name}.npy"


def test_an_old_file_is_replaced_in_the_end_only(model, tmp_path):
    path = tmp_path / "samples.npy"
    path.write_bytes(b"old")

    class Fails(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            assert path.read_bytes() == b"old"
            if batch == 2:
                raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        predict(model, return_samples=path, callbacks=[Fails()])
    assert left(tmp_path) == ["samples.npy"]
    assert path.read_bytes() == b"old"
    predict(model, return_samples=path)
    assert np.load(path).shape == (20, 23, 3)


def test_rows_saved_and_loaded(model, tmp_path):
    p = predict(model, return_samples=tmp_path / "samples.npy")
    assert isinstance(p[2:5].samples, np.memmap)
    np.testing.assert_array_equal(p[[4, 1]].samples, p.samples[:, [4, 1]])
    p.save(tmp_path / "p.npz")
    loaded = kbd.Predictive.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.samples, p.samples)
    np.testing.assert_array_equal(
        p.interval(0.5), np.quantile(p.samples, [0.25, 0.75], 0).astype("f")
    )


def test_probabilities_and_float64(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3, activation="softmax", dtype="float64"),
        ]
    )
    p = predict(model, return_samples=tmp_path / "samples.npy")
    assert np.load(tmp_path / "samples.npy").dtype == np.float64
    np.testing.assert_allclose(p.samples.sum(axis=-1), 1)


@pytest.mark.parametrize(
    "value",
    ["no", "yes", "samples.npz", "", 1, 0, None, 2.5, [True], "nowhere/s.npy"],
)
def test_what_is_no_answer_is_refused(model, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse(
        kbd.BayesdropError,
        lambda: predict(model, return_samples=value),
        "return_samples",
        "`.npy`",
    )
    assert left(tmp_path) == []


def test_a_folder_is_refused(model, tmp_path):
    (tmp_path / "folder.npy").mkdir()
    path = tmp_path / "folder.npy"
    refuse(
        kbd.BayesdropError,
        lambda: predict(model, return_samples=path),
        "return_samples",
    )


def test_bools_of_numpy_are_bools(model):
    assert predict(model, return_samples=np.True_).samples is not None
    assert predict(model, return_samples=np.False_).samples is None


def test_a_file_with_a_tolerance_is_refused(model, tmp_path):
    refuse(
        kbd.BayesdropError,
        lambda: predict(
            model, return_samples=tmp_path / "s.npy", absolute_tolerance=0.1
        ),
        "s.npy",
    )


ARITHMETIC = "5000 samples x 16 rows x 20000 outputs x 4 bytes = 6.4 GB"


@pytest.fixture
def wide_network(monkeypatch):
    """A network whose programs must not run."""
    for name in ("prefix", "suffix"):
        monkeypatch.delattr(
            f"keras_bayesdrop.prediction.sampling.programs.Sampler.{name}"
        )
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(20000),
        ]
    )


def test_more_than_the_memory_is_refused_before_the_first_sample(
    monkeypatch, wide_network
):
    room = 6_399_999_999
    monkeypatch.setattr(kept_samples, "available_memory", lambda: room)
    x = np.ones((16, 4), np.float32)
    refuse(
        kbd.BayesdropError,
        lambda: predict(wide_network, x, num_samples=5000, return_samples=True),
        "at most 6.4 GB",
        ARITHMETIC,
        "return_samples='samples.npy'",
    )


def test_more_than_the_disk_is_refused_before_the_first_sample(
    monkeypatch, tmp_path, wide_network
):
    class Disk:
        free = 5_000_000_000

    monkeypatch.setattr("shutil.disk_usage", lambda folder: Disk)
    x = np.ones((16, 4), np.float32)
    path = tmp_path / "samples.npy"
    refuse(
        kbd.BayesdropError,
        lambda: predict(wide_network, x, num_samples=5000, return_samples=path),
        "at most 5 GB",
        ARITHMETIC,
        tmp_path,
    )
    assert left(tmp_path) == []


def test_all_outputs_count(monkeypatch):
    room = 4 * 20 * 7 * 22
    monkeypatch.setattr(kept_samples, "available_memory", lambda: room)
    x = np.ones((7, 6), np.float32)
    model = two_outputs()
    assert predict(model, x, return_samples=True)["few"].samples.size
    room -= 1
    refuse(
        kbd.BayesdropError,
        lambda: predict(model, x, return_samples=True),
        "(2 outputs x 4 bytes + 20 outputs x 4 bytes) = 12.3 kB",
    )


def test_a_stream_is_refused_when_it_has_grown_too_long(model, monkeypatch):
    room = 20 * 10 * 3 * 4
    taken = []
    write = kept_samples._InMemory.write

    def counted(output, first_sample, first_row, block):
        write(output, first_sample, first_row, block)
        taken.append(block.nbytes)

    monkeypatch.setattr(kept_samples._InMemory, "write", counted)
    monkeypatch.setattr(
        kept_samples, "available_memory", lambda: max(0, room - sum(taken))
    )
    refuse(
        kbd.BayesdropError,
        lambda: predict(model, batches(), return_samples=True),
        "20 samples x",
        "rows x 3 outputs x 4 bytes",
    )
    assert 0 < sum(taken) <= room


def test_outputs_whose_size_is_known_late(monkeypatch):
    model = keras.Sequential(
        [keras.Input((None, 3)), keras.layers.Dropout(0.5)]
    )
    monkeypatch.setattr(kept_samples, "available_memory", lambda: 999)
    refuse(
        kbd.BayesdropError,
        lambda: predict(
            model, np.ones((4, 5, 3), np.float32), return_samples=True
        ),
        "20 samples x 4 rows x 15 outputs x 4 bytes = 4.8 kB",
    )


def test_unknown_memory_is_enough(model, monkeypatch):
    monkeypatch.setattr(kept_samples, "available_memory", lambda: None)
    assert predict(model, return_samples=True).samples is not None


def test_a_full_disk_is_told(model, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    path = tmp_path / "samples.npy"
    refuse(
        kbd.errors.WriteError,
        lambda: predict(model, return_samples=path),
        path,
        "No space left",
    )
    assert left(tmp_path) == []


def test_several_workers_do_not_write_one_file(model, tmp_path, monkeypatch):
    workers = types.SimpleNamespace(number=2, devices=("a",), num_workers=2)
    monkeypatch.setattr(
        "keras_bayesdrop.prediction.prepared.replicas_of", lambda model: workers
    )
    refuse(
        kbd.BayesdropError,
        lambda: predict(model, return_samples=tmp_path / "s.npy"),
        "2 workers",
        "s.npy",
    )
