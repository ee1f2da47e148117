# SPDX-License-Identifier: Apache-2.0
"""Files and folders are whole or not there: kills, full disks, links."""

import errno
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from keras_bayesdrop._core import files
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import WriteError
from tests._core import light_package
from tests.helpers import largest_file


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def kill(writer, moment):
    program = f"import killed_writers as k; k.main({writer!r}, {moment!r})"
    done = subprocess.run(
        [sys.executable, "-c", light_package.LIGHT + program],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Kills.


@pytest.mark.parametrize(
    "writer", ["save", "npz", "csv", "npy", "stream", "folder"]
)
@pytest.mark.parametrize(
    ("moment", "content"),
    [
        ("in_a_write", "old"),
        ("in_a_sync", "old"),
        ("before_the_rename", "old"),
        ("after_the_rename", "new"),
    ],
)
def test_a_killed_writer_leaves_the_old_or_the_new(writer, moment, content):
    seen = kill(writer, moment)
    in_a_write = moment == "in_a_write"
    assert seen["signal"] == (signal.SIGXFSZ if in_a_write else signal.SIGKILL)
    assert seen["there"]
    assert seen["content"] == content
    # There was something to clean, and the next run cleaned it.
    assert seen["parts"] >= 1
    assert seen["listing"]


def test_a_folder_replaced_in_two_steps_is_put_back():
    seen = kill("folder", "between_two_renames")
    assert seen == {
        "signal": signal.SIGKILL,
        "parts": 1,
        "there": False,
        "content": "old",
        "listing": True,
    }


# Full disks.


def write_text(path):
    with files.replacing_file(path) as part:
        part.write_text("x" * 2_000_000)


def write_numpy(path):
    with files.replacing_file(path) as part, part.open("wb") as file:
        np.save(file, np.ones(2_000_000))


def write_array(path):
    with files.replacing_array(path, (2_000_000,), "float64") as array:
        array[:] = 1


def write_folder(path):
    with files.replacing_folder(path) as part:
        part.mkdir()
        (part / "a").write_text("x" * 2_000_000)


def write_several(path):
    files.write_files(
        {
            pathlib.Path("other"): lambda part: part.write_text("x"),
            pathlib.Path(path): lambda part: part.write_text("x" * 2_000_000),
        },
        lambda: None,
    )


@pytest.mark.parametrize(
    "write",
    [write_text, write_numpy, write_array, write_folder, write_several],
)
@pytest.mark.parametrize("exists", [True, False])
def test_full_disk(write, exists):
    target = pathlib.Path("target")
    if exists and write is write_folder:
        target.mkdir()
        (target / "a").write_text("precious")
    elif exists:
        target.write_text("precious")
    with largest_file(1_000_000), pytest.raises(WriteError) as caught:
        write("target")
    text = str(caught.value)
    assert text.startswith("`target` was not written; ")
    there = "before is untouched. " if exists else "nothing is left of it. "
    assert there in text
    assert "Expected room for it on the disk. Received: " in text
    assert isinstance(caught.value, BayesdropError)
    assert isinstance(caught.value, OSError)
    if write is write_numpy:  # NumPy does not tell the error number.
        assert "requested and" in text
    else:
        assert caught.value.errno == errno.EFBIG
        assert caught.value.filename == "target"
        assert "File too large" in text
    assert os.listdir() == (["target"] if exists else [])
    if exists:
        kept = target / "a" if target.is_dir() else target
        assert kept.read_text() == "precious"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_disk_that_tells_only_when_synced(monkeypatch, code):
    def full(_):
        raise OSError(code, os.strerror(code))

    pathlib.Path("a").write_text("precious")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="`a` was not written") as caught:
        with files.replacing_file("a") as part:
            part.write_text("new")
    assert os.strerror(code) in str(caught.value)
    assert os.listdir() == ["a"]
    assert pathlib.Path("a").read_text() == "precious"


def test_full_disk_elsewhere_is_not_taken_for_ours():
    with pytest.raises(OSError) as caught:
        with files.replacing_file("a"):
            raise OSError(errno.ENOSPC, "no space", "/another/disk")
    assert type(caught.value) is OSError


def test_full_device():
    with pytest.raises(WriteError, match="No space left on device"):
        with files.replacing_file("/dev/full") as part:
            part.write_text("x")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_all_of_an_arrays_room_is_taken_first():
    with files.replacing_array("a.npy", (1000, 1000), "float32"):
        (part,) = pathlib.Path().glob(".a.npy.*.part/a.npy")
        assert part.stat().st_blocks * 512 >= 4_000_000


# Any other failure.


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_fails_leaves_the_old_file_and_nothing_else(error):
    pathlib.Path("a").write_text("precious")
    with pytest.raises(error), files.replacing_file("a") as part:
        part.write_text("half")
        raise error
    with pytest.raises(error), files.replacing_array("a", (9,), "f4"):
        raise error
    assert os.listdir() == ["a"]
    assert pathlib.Path("a").read_text() == "precious"


def test_of_several_files_none_is_replaced_if_the_check_fails():
    pathlib.Path("a").write_text("precious")
    write = {
        pathlib.Path(name): lambda part: part.write_text("new")
        for name in ("a", "b")
    }

    def fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        files.write_files(write, fail)
    assert os.listdir() == ["a"]
    assert pathlib.Path("a").read_text() == "precious"


def test_folder_of_the_file_is_missing():
    with pytest.raises(FileNotFoundError) as caught:
        with files.replacing_file("nowhere/a"):
            pass
    assert caught.value.filename == "nowhere/a"


def test_target_is_a_folder_or_is_read_only(monkeypatch):
    os.mkdir("a")
    with pytest.raises(IsADirectoryError), files.replacing_file("a"):
        pass
    pathlib.Path("b").write_text("precious")
    # An administrator may write to any file.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError), files.replacing_file("b"):
        pass
    assert sorted(os.listdir()) == ["a", "b"]


# What a replaced file keeps.


def test_symbolic_links_are_followed():
    os.mkdir("real")
    os.symlink("real/a", "link")
    for text in ("made", "replaced"):
        with files.replacing_file("link") as part:
            part.write_text(text)
        assert os.readlink("link") == "real/a"
        assert pathlib.Path("real/a").read_text() == text
    os.symlink("loop", "loop")
    with pytest.raises(OSError) as caught, files.replacing_file("loop"):
        pass
    assert caught.value.errno == errno.ELOOP
    assert os.listdir("real") == ["a"]


def test_permissions_and_owner_are_kept():
    pathlib.Path("a").write_text("old")
    os.chmod("a", 0o604)
    before = os.stat("a")
    with files.replacing_file("a") as part:
        part.write_text("new")
    after = os.stat("a")
    assert stat.S_IMODE(after.st_mode) == 0o604
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_owner_is_given_back(monkeypatch):
    owners = []
    pathlib.Path("a").write_text("old")
    stat_of = pathlib.Path.stat

    class Other:
        st_uid, st_gid, st_mode = 12, 34, 0o100600

    def other(path, **kwargs):
        return Other if path.parent == pathlib.Path.cwd() else stat_of(path)

    pathlib.Path("part").mkdir()
    pathlib.Path("part/a").write_text("new")
    monkeypatch.setattr(os, "chown", lambda *args: owners.append(args[1:]))
    monkeypatch.setattr(pathlib.Path, "stat", other)
    here = pathlib.Path.cwd()
    files._keep_permissions(here / "part" / "a", here / "a")
    assert owners == [(12, 34)]


def test_new_files_have_the_permissions_of_any():
    before = os.umask(0o027)
    try:
        with files.replacing_file("a") as part:
            part.write_text("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("a").st_mode) == 0o640


def test_pipes_and_devices_are_written_directly():
    os.mkfifo("pipe")
    read = []
    reader = threading.Thread(
        target=lambda: read.append(pathlib.Path("pipe").read_text())
    )
    reader.start()
    with files.replacing_file("pipe") as part:
        part.write_text("x")
    reader.join()
    assert read == ["x"]
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_names_as_long_as_can_be(name):
    for text in ("a", "b"):
        with files.replacing_file(name) as part:
            part.write_text(text)
    assert os.listdir() == [name]
    assert pathlib.Path(name).read_text() == "b"


# Arrays on disk.


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", ">f4"])
@pytest.mark.parametrize("shape", [(3, 5, 2), (4, 0), (), (1,)])
def test_array_on_disk(shape, dtype):
    desired = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with files.replacing_array("a.npy", shape, dtype) as array:
        array[...] = desired
    loaded = np.load("a.npy", allow_pickle=False)
    assert loaded.dtype == desired.dtype
    np.testing.assert_array_equal(loaded, desired)
    np.testing.assert_array_equal(array, desired)
    mapped = np.lib.format.open_memmap("a.npy", "r") if loaded.size else loaded
    np.testing.assert_array_equal(mapped, desired)
