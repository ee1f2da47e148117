# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop predict`: the numbers of Python, in whole files."""

import csv
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
from keras_bayesdrop_command import main
from tests.cli import files
from tests.helpers import flat
from tests.helpers import largest_file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a regression and data, which is the current one."""
    monkeypatch.chdir(tmp_path)
    files.save(files.regression(), tmp_path / "model.keras")
    np.save("data.npy", files.data())
    return tmp_path


def run(*arguments, data="data.npy", model="model.keras"):
    return main(["predict", model, data, *arguments])


def expected(model="model.keras", x=None, samples=20, **kwargs):
    """What Python predicts, with the seed of the tests."""
    return kbd.predict_with_uncertainty(
        keras.saving.load_model(model),
        files.data() if x is None else x,
        samples,
        seed=5,
        verbose=0,
        **flat(**kwargs),
    )


def assert_same(actual, desired):
    """Asserts that two predictions are equal bit for bit."""
    assert actual.task == desired.task
    assert actual.stats.seed == desired.stats.seed
    assert actual.stats.num_samples == desired.stats.num_samples
    assert actual.stats.masks == desired.stats.masks
    assert actual.stats.method == desired.stats.method
    assert actual.noise_precision == desired.noise_precision
    for name in (
        "mean",
        "variance",
        "samples",
        "quantile_levels",
        "quantile_values",
        "mean_entropy",
        "vote_counts",
        "sampled_variance",
    ):
        np.testing.assert_array_equal(
            getattr(actual, name), getattr(desired, name), name
        )


def read_table(path):
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, "float64")


def column(path, name):
    header, rows = read_table(path)
    return rows[:, header.index(name)].astype("float32")


FIXED = ("--samples", "20", "--seed", "5", "--quiet")


@pytest.mark.parametrize(
    ("arguments", "kwargs"),
    [
        ((), {}),
        (
            ("--masks", "independent", "--batch-size", "3", "--keep-samples"),
            {"masks": "independent", "batch_size": 3, "return_samples": True},
        ),
        (
            ("--engine", "reference", "--quantiles", "0.05", "0.95"),
            {"engine": "reference", "quantiles": (0.05, 0.95)},
        ),
        (
            (
                *("--method", "moments", "--head", "regression"),
                *("--noise-precision", "4"),
            ),
            {"method": "moments", "noise_precision": 4.0},
        ),
        (
            ("--head", "binary", "--from-logits"),
            {"head": "binary", "from_logits": True},
        ),
    ],
)
def test_npz_is_the_prediction_of_python(folder, arguments, kwargs):
    assert run("--out", "out.npz", *FIXED, *arguments) == 0
    assert_same(kbd.Predictive.load("out.npz"), expected(**kwargs))


def test_head_overrides_what_the_model_shows(folder):
    files.save(files.classifier(), "classes.keras")
    arguments = ("--out", "out.npz", *FIXED, "--head", "regression")
    assert run(*arguments, model="classes.keras") == 0
    assert_same(
        kbd.Predictive.load("out.npz"),
        expected("classes.keras", head="regression"),
    )


def test_npy_is_the_samples(folder):
    assert run("--out", "out.npy", *FIXED) == 0
    samples = np.load("out.npy", allow_pickle=False)
    assert samples.shape == (20, files.ROWS, 2)
    desired = expected(return_samples=True).samples
    np.testing.assert_array_equal(samples, desired)


def test_table_of_a_regression_reads_back_bit_for_bit(folder):
    assert run("--out", "out.csv", *FIXED, "--interval", "0.8") == 0
    p = expected()
    lower, upper = p.interval(0.8)
    header, rows = read_table("out.csv")
    quantities = {"mean": p.mean, "std": p.std, "lower": lower, "upper": upper}
    assert header == ["row", *(f"{q}_{i}" for q in quantities for i in (0, 1))]
    np.testing.assert_array_equal(rows[:, 0], np.arange(files.ROWS))
    for name, values in quantities.items():
        for i in (0, 1):
            np.testing.assert_array_equal(
                column("out.csv", f"{name}_{i}"), values[:, i]
            )


def test_table_has_noise_and_quantiles_if_asked(folder):
    asked = ("--head", "regression", "--noise-precision", "4")
    asked += ("--quantiles", "0.1", "0.5")
    assert run("--out", "out.csv", *FIXED, *asked) == 0
    p = expected(noise_precision=4.0, quantiles=(0.1, 0.5))
    np.testing.assert_allclose(
        column("out.csv", "total_std_1"),
        np.sqrt(p.variance[:, 1] + 0.25),
        rtol=1e-6,
    )
    np.testing.assert_array_equal(
        column("out.csv", "q0.1_0"), p.quantile_values[0, :, 0]
    )


def test_table_of_classes(folder):
    files.save(files.classifier(), "classes.keras")
    assert run("--out", "out.csv", *FIXED, model="classes.keras") == 0
    p = expected("classes.keras")
    header, _ = read_table("out.csv")
    assert header[:5] == ["row", "class", "mean_0", "mean_1", "mean_2"]
    np.testing.assert_array_equal(
        column("out.csv", "class"), p.mean.argmax(axis=1)
    )
    np.testing.assert_array_equal(
        column("out.csv", "entropy"), p.predictive_entropy
    )
    np.testing.assert_array_equal(
        column("out.csv", "mutual_information"), p.mutual_information
    )


def test_table_of_a_binary_model_has_entropies_per_output(folder):
    files.save(files.classifier("sigmoid", 2), "binary.keras")
    assert run("--out", "out.csv", *FIXED, model="binary.keras") == 0
    p = expected("binary.keras")
    for i in (0, 1):
        np.testing.assert_array_equal(
            column("out.csv", f"entropy_{i}"), p.predictive_entropy[:, i]
        )
        np.testing.assert_array_equal(
            column("out.csv", f"mutual_information_{i}"),
            p.mutual_information[:, i],
        )


def test_table_of_moments(folder):
    files.save(files.classifier(), "classes.keras")
    arguments = ("--out", "out.csv", *FIXED, "--method", "moments")
    assert run(*arguments, model="classes.keras") == 0
    p = expected("classes.keras", method="moments")
    np.testing.assert_array_equal(column("out.csv", "mean_1"), p.mean[:, 1])
    np.testing.assert_array_equal(
        column("out.csv", "mutual_information"), p.mutual_information
    )


# Data.


def test_table_in_gives_what_the_array_gives(folder):
    np.savetxt("data.csv", files.data(), delimiter=",", fmt="%.9g")
    assert run("--out", "a.npz", *FIXED, data="data.csv") == 0
    assert_same(kbd.Predictive.load("a.npz"), expected())


def test_columns_by_name_and_by_number(folder):
    x = files.data()
    lines = ["name,d,c,b,a"]
    lines += [f"r{i},{r[3]},{r[2]},{r[1]},{r[0]}" for i, r in enumerate(x)]
    (folder / "data.csv").write_text("\n".join(lines))
    chosen = ("--columns", "a", "b", "3", "d")
    assert run("--out", "a.npz", *FIXED, *chosen, data="data.csv") == 0
    assert_same(kbd.Predictive.load("a.npz"), expected())


def test_line_of_a_table_takes_the_shape_of_the_input(folder):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((2, 2, 1)),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    files.save(model, "image.keras")
    np.savetxt("data.csv", files.data(), delimiter=",", fmt="%.9g")
    arguments = ("--out", "a.npz", *FIXED)
    assert run(*arguments, model="image.keras", data="data.csv") == 0
    x = files.data().reshape(-1, 2, 2, 1)
    assert_same(kbd.Predictive.load("a.npz"), expected("image.keras", x))


def test_whole_numbers_for_an_embedding(folder, capsys):
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            keras.layers.Embedding(5, 2),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    files.save(model, "tokens.keras")
    (folder / "data.csv").write_text("0,1,2\n3,4,0\n")
    arguments = ("--out", "a.npz", *FIXED)
    assert run(*arguments, model="tokens.keras", data="data.csv") == 0
    x = np.array([[0, 1, 2], [3, 4, 0]], "int32")
    assert_same(kbd.Predictive.load("a.npz"), expected("tokens.keras", x))
    (folder / "data.csv").write_text("0,1,2.5\n3,4,0\n")
    arguments = ("--out", "b.npz", *FIXED)
    assert run(*arguments, model="tokens.keras", data="data.csv") == 1
    assert "takes whole numbers. Expected int32." in capsys.readouterr().err


def test_array_of_the_inputs_name_or_the_one_chosen(folder, capsys):
    x = files.data()
    np.savez("named.npz", y=np.ones(3), features=x)
    assert run("--out", "a.npz", *FIXED, data="named.npz") == 0
    assert_same(kbd.Predictive.load("a.npz"), expected())
    np.savez("other.npz", y=np.ones(3), x=x)
    assert run("--out", "b.npz", *FIXED, data="other.npz") == 1
    message = capsys.readouterr().err
    assert "has 2 arrays, and the model one input" in message
    assert "Received: `y`, `x`" in message
    arguments = ("--out", "b.npz", *FIXED, "--array", "x")
    assert run(*arguments, data="other.npz") == 0
    assert_same(kbd.Predictive.load("b.npz"), expected())
    arguments = ("--out", "c.npz", *FIXED, "--array", "z")
    assert run(*arguments, data="other.npz") == 1
    assert "has no array `z`" in capsys.readouterr().err


class TestSeveralInputsAndOutputs:
    @pytest.fixture(autouse=True)
    def _model(self, folder):
        files.save(files.two_by_two(), "two.keras")
        self.left, self.right = files.data(), files.data(features=3)

    def desired(self):
        x = {"left": self.left, "right": self.right}
        return expected("two.keras", x)

    def run(self, *arguments):
        return run(*arguments, *FIXED, model="two.keras", data="two.npz")

    def test_a_file_for_each_output(self, capsys):
        np.savez("two.npz", right=self.right, left=self.left, y=self.left)
        assert self.run("--out", "out.npz") == 0
        price, kind = self.desired()
        assert_same(kbd.Predictive.load("out.price.npz"), price)
        assert_same(kbd.Predictive.load("out.kind.npz"), kind)
        assert "not an input, left out: `y`" in capsys.readouterr().err
        # Every one of them is kept from being overwritten.
        os.remove("out.price.npz")
        assert self.run("--out", "out.npz") == 1
        assert "`out.kind.npz` exists" in capsys.readouterr().err
        assert not os.path.exists("out.price.npz")

    def test_one_table_for_all(self):
        np.savez("two.npz", right=self.right, left=self.left)
        assert self.run("--out", "out.csv") == 0
        price, kind = self.desired()
        np.testing.assert_array_equal(
            column("out.csv", "price_mean_0"), price.mean[:, 0]
        )
        np.testing.assert_array_equal(
            column("out.csv", "kind_entropy"), kind.predictive_entropy
        )

    def test_numbered_arrays_are_inputs_in_order(self):
        np.savez("two.npz", self.left, self.right)
        assert self.run("--out", "out.npz") == 0
        assert_same(kbd.Predictive.load("out.price.npz"), self.desired()[0])

    def test_missing_input(self, capsys):
        np.savez("two.npz", left=self.left, wrong=self.right)
        assert self.run("--out", "out.npz") == 1
        message = capsys.readouterr().err
        assert "arrays named left, right." in message
        assert "Received: `left`, `wrong`" in message

    def test_uneven_inputs(self, capsys):
        np.savez("two.npz", left=self.left, right=self.right[:-1])
        assert self.run("--out", "out.npz") == 1
        assert "differ in length" in capsys.readouterr().err


# Refusals, each with one line and before any prediction.


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
