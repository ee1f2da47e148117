# SPDX-License-Identifier: Apache-2.0
"""Scratch folders: those of living writers stay, those of dead ones go."""

import errno
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from keras_bayesdrop._core import files
from keras_bayesdrop._core import scratch
from tests._core import light_package


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_what_a_living_writer_writes_is_not_cleaned():
    with files.replacing_file("a.txt") as slow:
        slow.write_text("slow")
        with files.replacing_file("a.txt") as fast:
            fast.write_text("fast")
        scratch.clear_left_overs("a.txt")
        assert pathlib.Path("a.txt").read_text() == "fast"
        assert slow.read_text() == "slow"
    assert pathlib.Path("a.txt").read_text() == "slow"
    assert os.listdir() == ["a.txt"]


def test_what_a_living_process_writes_is_not_cleaned(tmp_path):
    program = light_package.LIGHT + (
        "from keras_bayesdrop._core import files\n"
        "with files.replacing_file('a.txt') as part:\n"
        "    part.write_text('theirs')\n"
        "    print('written', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "written\n"
        with files.replacing_file("a.txt") as part:
            part.write_text("ours")
        assert len(os.listdir()) == 2
        other.communicate("\n", timeout=60)
    assert other.returncode == 0
    assert pathlib.Path("a.txt").read_text() == "theirs"
    assert os.listdir() == ["a.txt"]


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_writers_of_one_target_at_once(monkeypatch, kind, exchange):
    if not exchange:
        monkeypatch.setattr(scratch, "_exchange", lambda *_: False)
    size = 50_000
    failures = []

    def write(letter):
        if kind == "file":
            with files.replacing_file("target") as part:
                part.write_text(letter * size)
        else:
            with files.replacing_folder("target") as part:
                part.mkdir()
                (part / "one").write_text(letter * size)
                (part / "two").write_text(letter * size)

    def work(letter):
        try:
            for _ in range(15):
                write(letter)
                if kind == "file":
                    text = pathlib.Path("target").read_text()
                    assert len(text) == size and len(set(text)) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert os.listdir() == ["target"]
    target = pathlib.Path("target")
    parts = [target] if kind == "file" else sorted(target.iterdir())
    text = "".join(part.read_text() for part in parts)
    assert len(text) == size * len(parts) and len(set(text)) == 1


def test_neighbours_are_not_taken_for_left_overs():
    names = [".a.part", ".a.b.abcdefgh.part", ".aa.abcdefgh.part"]
    names += [".a.ABCDEFGH.part", "a.abcdefgh.part", ".a.abcdefgh"]
    for name in names:
        os.mkdir(name)
    # A file of such a name is none of ours either.
    pathlib.Path(".a.12345678.part").write_text("")
    os.mkdir(".a.abcdefgh.part")
    with files.replacing_file("a") as part:
        part.write_text("x")
    assert sorted(os.listdir()) == sorted(["a", ".a.12345678.part", *names])


@pytest.mark.parametrize("locks", ["none", "fails"])
def test_without_locks_nothing_of_others_is_removed(monkeypatch, locks):
    os.mkdir(".a.abcdefgh.part")
    if locks == "none":
        monkeypatch.setattr(scratch, "fcntl", None)
    else:

        def fail(*_):
            raise OSError(errno.ENOLCK, "no locks")

        monkeypatch.setattr(scratch.fcntl, "flock", fail)
    with files.replacing_file("a") as part:
        part.write_text("x")
    assert sorted(os.listdir()) == [".a.abcdefgh.part", "a"]


def test_scratch_folder_that_another_removed_is_made_anew(monkeypatch):
    """A cleaner may come between making a folder and locking it."""
    lock, calls = scratch._lock, []

    def late(folder, wait):
        calls.append(folder)
        if len(calls) == 1:
            os.rmdir(folder)
        return lock(folder, wait)

    monkeypatch.setattr(scratch, "_lock", late)
    with files.replacing_file("a") as part:
        part.write_text("x")
    assert len(calls) == 2
    assert os.listdir() == ["a"]
