# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop predict` writes the numbers that Python predicts."""

import os

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.cli import files
from tests.cli.predict_command import FIXED
from tests.cli.predict_command import assert_same
from tests.cli.predict_command import column
from tests.cli.predict_command import expected
from tests.cli.predict_command import read_table
from tests.cli.predict_command import run


@pytest.mark.parametrize(
    ("arguments", "kwargs"),
    [
        ((), {}),
        (
            ("--masks", "independent", "--batch-size", "3", "--keep-samples"),
            {"masks": "independent", "batch_size": 3, "return_samples": True},
        ),
        (("--draws", "balanced"), {"draws": "balanced"}),
        (("--draws", "independent"), {"draws": "independent"}),
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
