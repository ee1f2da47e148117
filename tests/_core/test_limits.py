# SPDX-License-Identifier: Apache-2.0
"""Files that would take too much memory are refused before they take it."""

import pathlib
import tracemalloc
import zipfile

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from keras_bayesdrop._core import limits
from keras_bayesdrop._core.memory import describe_bytes
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import TooLargeError
from keras_bayesdrop.predictive import Predictive
from tests._core import bombs
from tests.predictive.cases import everything
from tests.predictive.cases import make
from tests.predictive.cases import normal

MB, GIB = 10**6, 2**30


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def saved(monkeypatch):
    """A small prediction, on a machine with much memory and a low limit."""
    monkeypatch.setattr(limits, "available_memory", lambda: 2**50)
    monkeypatch.setattr(limits, "_ALWAYS", 50 * MB)
    path = pathlib.Path("p.npz")
    make("regression", normal((2,), 2)).save(path)
    return path


def refused(path, **kwargs):
    """Loads a file in vain; returns the message and the bytes it took."""
    tracemalloc.start()
    try:
        with pytest.raises(BayesdropError) as caught:
            Predictive.load(path, **kwargs)
        return caught, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# The limit.


def test_default_limit(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 100 * GIB)
    assert limits.default_limit(0) == GIB
    assert limits.default_limit(10_000_000) == GIB
    assert limits.default_limit(GIB // 8) == 100 * GIB // 8
    assert limits.default_limit(GIB) == 50 * GIB
    monkeypatch.setattr(limits, "available_memory", lambda: GIB)
    assert limits.default_limit(0) == GIB // 2


def test_memory_that_is_not_known_does_not_count(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: None)
    assert limits.default_limit(0) == GIB


# Predictions.


def test_bomb_is_refused_before_it_takes_memory(saved):
    bombs.repack(saved, {"mean.npy": None})
    size = 200 * MB
    head = bombs.npy((size // 4 - 32,))
    bombs.zeros(saved, "mean.npy", size, head)
    assert saved.stat().st_size < MB
    caught, peak = refused(saved)
    assert type(caught.value) is TooLargeError
    assert peak < 10 * MB
    text = str(caught.value)
    assert text.startswith("`p.npz` would take too much memory. Expected at ")
    assert "50% of the memory that is available" in text
    assert "no more than 50 MB or 100 times the size" in text
    assert "max_bytes raises that. Received: 200 MB, from a file of " in text


def test_many_small_members_are_one_bomb(saved):
    for number in range(12):
        bombs.zeros(saved, f"more_{number}.npy", 10 * MB)
    caught, _ = refused(saved)
    assert "Received: 120 MB" in str(caught.value)


def test_limit_can_be_given(saved):
    p = Predictive.load(saved)
    with zipfile.ZipFile(saved) as archive:
        size = sum(member.file_size for member in archive.infolist())
    assert len(Predictive.load(saved, max_bytes=size)) == len(p)
    caught, _ = refused(saved, max_bytes=size - 1)
    assert type(caught.value) is TooLargeError
    assert f"Expected at most {describe_bytes(size - 1)}; max_bytes" in (
        str(caught.value)
    )
    for bad in (0, -1, 1.5, "8", True):
        caught, _ = refused(saved, max_bytes=bad)
        assert "Invalid value for argument `max_bytes`" in str(caught.value)


def test_limit_raised_reads_what_was_refused(saved, monkeypatch):
    monkeypatch.setattr(limits, "_ALWAYS", 1000)
    monkeypatch.setattr(limits, "_RATIO", 1)
    samples = np.zeros((10, 1000, 2), "float32")
    p = make("regression", samples)
    p.save(saved)
    bombs.repack(saved, {})
    caught, _ = refused(saved)
    assert type(caught.value) is TooLargeError
    loaded = Predictive.load(saved, max_bytes=10**6)
    np.testing.assert_array_equal(loaded.samples, samples)


@pytest.mark.parametrize(
    ("array", "part"),
    [
        (bombs.npy((10**9,), content=bytes(64)), "4000000000 bytes, and holds"),
        (bombs.npy((10**9,), version=(2, 0)), "4000000000 bytes, and holds 0"),
        (bombs.npy((10**9,), version=(3, 0)), "4000000000 bytes, and holds 0"),
        (bombs.npy((), "S2000000000"), "2000000000 bytes, and holds 0"),
        (bombs.npy((2**40, 2**40)), "claims the shape"),
        (bombs.npy((2**70, 0)), "claims the shape"),
        (bombs.npy((-1,)), "claims the shape"),
        (bombs.npy((3,), content=bytes(11)), "12 bytes, and holds 11"),
        (bombs.npy((3,), version=(9, 0)), "Received: ValueError"),
        (b"", "Received: "),
        (b"hello", "Received: "),
    ],
)
def test_forged_shapes(saved, array, part):
    bombs.repack(saved, {"mean.npy": array})
    caught, peak = refused(saved)
    text = str(caught.value)
    assert text.startswith("Cannot read a prediction from `p.npz`. Expected ")
    assert part in text
    assert peak < 10 * MB


def test_directory_that_lies_about_a_size(saved):
    """Read at once, all of it would be unpacked before the rest is cut."""
    bombs.zeros(saved, "note.txt", 200 * MB)
    bombs.lie(saved, "note.txt", 1000)
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None
        assert archive.getinfo("note.txt").file_size == 1000
    caught, peak = refused(saved)
    assert "lies about the size of note.txt" in str(caught.value)
    assert peak < 20 * MB


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_without_bound_is_refused(saved, kind):
    with zipfile.ZipFile(saved, "a", kind) as archive:
        archive.writestr("note.txt", b"x")
    caught, _ = refused(saved)
    assert "an unknown compression" in str(caught.value)


@hypothesis.given(data=st.data())
def test_any_header_is_refused_or_read(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "p.npz"
    everything("regression").save(path)
    shape = data.draw(
        st.lists(st.integers(-(2**70), 2**70), max_size=4).map(tuple)
    )
    dtype = data.draw(st.sampled_from(["<f4", "<f8", "|O", "<U7", "|b1", "V0"]))
    bombs.repack(path, {"mean.npy": bombs.npy(shape, dtype, bytes(8))})
    with pytest.raises(BayesdropError):
        Predictive.load(path)
