# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop predict`: its refusals, its files and its report."""

import os
import re
import stat
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.cli import predict as command
from tests.cli import files
from tests.cli.predict_command import FIXED
from tests.cli.predict_command import assert_same
from tests.cli.predict_command import expected
from tests.cli.predict_command import run
from tests.helpers import largest_file


@pytest.mark.parametrize(
    ("write", "parts"),
    [
        (
            lambda: np.save("data.npy", files.data(features=5)),
            ["Expected shape(s) [(None, 4)]. Received: [(7, 5)]"],
        ),
        (
            lambda: np.save("data.npy", files.data()[:0]),
            ["`x` is empty. Expected at least one row."],
        ),
        (
            lambda: np.save("data.npy", files.data() * [1, 1, np.nan, 1]),
            ["NaN or infinity in the inputs", "7 bad row(s), at 0, 1"],
        ),
        (lambda: np.save("data.npy", np.float32(3)), ["no batch axis"]),
    ],
)
def test_data_that_does_not_fit(folder, capsys, write, parts):
    write()
    assert run("--out", "out.npz") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("keras-bayesdrop: error: ")
    assert printed.err.count("\n") == 1
    for part in parts:
        assert part in printed.err
    assert sorted(os.listdir()) == ["data.npy", "model.keras"]


def test_wrong_number_of_columns(folder, capsys):
    np.savetxt("data.csv", files.data(features=5), delimiter=",")
    assert run("--out", "out.npz", data="data.csv") == 1
    message = capsys.readouterr().err
    assert "Expected 4 feature(s), for an input of shape (4,)" in message
    assert "Received: 5 column(s)" in message


def test_does_not_overwrite_and_says_so_before_work(
    folder, capsys, monkeypatch
):
    (folder / "out.npz").write_text("precious")
    loaded = []
    load_model = command.load_model
    monkeypatch.setattr(
        command,
        "load_model",
        lambda *a: loaded.append(a) or load_model(*a),
    )
    assert run("--out", "out.npz", *FIXED) == 1
    message = capsys.readouterr().err
    assert "`out.npz` exists and is not overwritten" in message
    assert "--force" in message
    assert (folder / "out.npz").read_text() == "precious"
    assert loaded == []
    assert run("--out", "out.npz", *FIXED, "--force") == 0
    assert_same(kbd.Predictive.load("out.npz"), expected())


def test_never_overwrites_what_it_reads(folder, capsys):
    before = (folder / "data.npy").read_bytes()
    assert run("--out", "data.npy", "--force") == 1
    assert "is read by this command" in capsys.readouterr().err
    assert (folder / "data.npy").read_bytes() == before


def test_out_must_be_a_file_in_a_folder(folder, capsys):
    assert run("--out", "nowhere/out.npz") == 1
    assert "no such folder: " in capsys.readouterr().err
    os.mkdir("folder.npz")
    assert run("--out", "folder.npz", "--force") == 1
    assert "Expected the name of a file. Received: a folder" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space left"), 1), (KeyboardInterrupt, 130)],
)
@pytest.mark.parametrize("name", ["out.npz", "new.npz"])
def test_what_fails_while_writing_leaves_nothing(
    folder, capsys, monkeypatch, error, code, name
):
    (folder / "out.npz").write_text("precious")

    def half(self, path):
        path.write_text("half")
        raise error

    monkeypatch.setattr(kbd.Predictive, "save", half)
    assert run("--out", name, *FIXED, "--force") == code
    left = ["data.npy", "model.keras", "out.npz"]
    assert sorted(os.listdir()) == left
    assert (folder / "out.npz").read_text() == "precious"
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert ("No space left" if code == 1 else "interrupted") in message


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".npy"])
@pytest.mark.parametrize("exists", [True, False])
def test_full_disk_is_said_and_nothing_is_lost(
    folder, capsys, monkeypatch, suffix, exists
):
    out = folder / f"out{suffix}"
    if exists:
        out.write_text("precious")
    write_files = command.write_files

    def on_a_small_disk(*args):
        with largest_file(200):
            write_files(*args)

    monkeypatch.setattr(command, "write_files", on_a_small_disk)
    assert run("--out", out.name, *FIXED, "--force") == 1
    there = (
        "what was there before is untouched"
        if exists
        else "nothing is left of it"
    )
    assert capsys.readouterr() == (
        "",
        f"keras-bayesdrop: error: `{out.name}` was not written; {there}. "
        "Expected room for it on the disk. Received: File too large\n",
    )
    left = ["data.npy", "model.keras", *([out.name] if exists else [])]
    assert sorted(os.listdir()) == left
    if exists:
        assert out.read_text() == "precious"


def test_limit_of_memory(folder, capsys):
    arguments = ("--out", "out.npz", *FIXED, "--max-bytes")
    assert run(*arguments, "100") == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "`model.keras` would take too much memory. Expected at " in message
    assert "at most 100 bytes; --max-bytes raises that" in message
    np.save("data.npy", files.data(rows=10_000))
    assert run(*arguments, "1e5") == 1
    assert "`data.npy` would take too much memory" in capsys.readouterr().err
    assert run(*arguments, "1e6") == 0


def test_links_are_followed(folder, capsys):
    os.mkdir("real")
    os.symlink("real/out.npz", "out.npz")
    assert run("--out", "out.npz", *FIXED) == 0
    assert run("--out", "out.npz", *FIXED, "--force") == 0
    assert os.readlink("out.npz") == "real/out.npz"
    assert_same(kbd.Predictive.load("real/out.npz"), expected())
    os.symlink("nowhere/out.npz", "lost.npz")
    assert run("--out", "lost.npz", *FIXED) == 1
    message = capsys.readouterr().err
    assert "`lost.npz` cannot be written" in message
    assert f"no such folder: `{folder / 'nowhere'}`" in message


def test_interrupted_while_predicting(folder, capsys, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "predict_with_uncertainty", stop)
    assert run("--out", "out.npz") == 130
    assert sorted(os.listdir()) == ["data.npy", "model.keras"]
    assert "Traceback" not in capsys.readouterr().err


def test_file_that_came_meanwhile_is_kept(folder, capsys, monkeypatch):
    save = kbd.Predictive.save

    def slow(self, path):
        save(self, path)
        (folder / "out.npz").write_text("another's")

    monkeypatch.setattr(kbd.Predictive, "save", slow)
    assert run("--out", "out.npz", *FIXED) == 1
    assert (folder / "out.npz").read_text() == "another's"
    assert len(os.listdir()) == 3


def test_permissions_are_those_of_any_new_file(folder):
    before = os.umask(0o027)
    try:
        assert run("--out", "out.csv", *FIXED) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("out.csv").st_mode) == 0o640


# What is said.


def test_report_names_the_file_and_the_least_sure_row(folder, capsys):
    assert run("--out", "out.npz", "--samples", "20", "--seed", "5") == 0
    printed = capsys.readouterr()
    p = expected()
    assert printed.err == ""
    first, second = printed.out.splitlines()
    assert re.fullmatch(
        r"out\.npz: 7 row\(s\), 20 samples, seed 5, \d+\.\d\d s", first
    )
    least_sure = p.std.mean(axis=1).argmax()
    assert second == (
        f"output: regression, shape (7, 2), mean std {p.std.mean():.4g}, "
        f"largest in row {least_sure}"
    )


def test_defaults_are_fifty_samples_and_seed_zero(folder, capsys):
    assert run("--out", "out.npz", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    stats = kbd.Predictive.load("out.npz").stats
    assert (stats.num_samples, stats.seed) == (50, 0)


def test_bar_goes_to_the_terminal_and_not_into_results(
    folder, capsys, monkeypatch
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("--out", "out.npz", "--batch-size", "3") == 0
    printed = capsys.readouterr()
    assert "━" in printed.err
    assert printed.out.startswith("out.npz: ")
    assert run("--out", "out.npz", "--force", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


@keras.saving.register_keras_serializable("tests_cli")
class OwnNoise(keras.layers.Layer):
    def call(self, inputs):
        return tf.nn.dropout(inputs, 0.5)


def test_noise_out_of_reach_is_one_line(folder, capsys):
    model = files.regression()
    parts = [keras.Input((files.FEATURES,)), *model.layers, OwnNoise()]
    files.save(keras.Sequential(parts), "own.keras")
    assert run("--out", "out.npz", *FIXED, model="own.keras") == 1
    message = capsys.readouterr().err
    assert message.startswith("keras-bayesdrop: ")
    assert "own_noise" in message
    assert "--allow-hidden-noise" in message
    assert message.count("\n") == 1
    assert not os.path.exists("out.npz")
    allow = ("--allow-hidden-noise", *FIXED)
    assert run("--out", "out.npz", *allow, model="own.keras") == 0
    message = capsys.readouterr().err
    assert message.startswith("keras-bayesdrop: warning: Some layers draw")
    assert message.count("\n") == 1


def test_model_without_noise(folder, capsys):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    files.save(model, "plain.keras")
    assert run("--out", "out.npz", model="plain.keras") == 1
    assert "nothing to sample" in capsys.readouterr().err
