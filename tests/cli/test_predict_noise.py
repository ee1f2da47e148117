# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop predict` of models that learn their noise."""

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

LEARNED = ("--head", "heteroscedastic")
PAIR = (*LEARNED, "--noise-outputs", "price", "log_variance")
TWO = kbd.Heteroscedastic(mean="price", log_variance="log_variance")


def two_outputs(more=False):
    """A model with means and log variances in outputs of their own."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((files.FEATURES,))
    hidden = keras.layers.Dropout(0.5)(
        keras.layers.Dense(8, activation="relu")(inputs)
    )
    outputs = [
        keras.layers.Dense(1, name="price")(hidden),
        keras.layers.Dense(1, name="log_variance")(hidden),
    ]
    if more:
        dense = keras.layers.Dense(3, activation="softmax", name="kind")
        outputs.append(dense(hidden))
    return keras.Model(inputs, outputs)


def test_table(folder):
    assert run("--out", "out.csv", *FIXED, *LEARNED, "--interval", "0.8") == 0
    p = expected(head="heteroscedastic")
    lower, upper = p.interval(0.8)
    header, _ = read_table("out.csv")
    quantities = {
        "mean": p.mean,
        "std": p.std,
        "aleatoric_std": np.sqrt(p.noise_variance),
        "total_std": np.sqrt(p.variance + p.noise_variance),
        "lower": lower,
        "upper": upper,
    }
    assert header == ["row", *(f"{name}_0" for name in quantities)]
    for name, values in quantities.items():
        np.testing.assert_allclose(
            column("out.csv", f"{name}_0"), values[:, 0], rtol=1e-6
        )


def test_whole_prediction(folder):
    assert run("--out", "out.npz", *FIXED, *LEARNED, "--keep-samples") == 0
    p = kbd.Predictive.load("out.npz")
    desired = expected(head="heteroscedastic", return_samples=True)
    assert_same(p, desired)
    for name in ("noise_variance", "noise_samples"):
        np.testing.assert_array_equal(getattr(p, name), getattr(desired, name))


def test_samples_and_their_noise(folder, capsys):
    assert run("--out", "out.npy", *FIXED[:-1], *LEARNED) == 0
    p = expected(head="heteroscedastic", return_samples=True)
    np.testing.assert_array_equal(np.load("out.npy"), p.samples)
    np.testing.assert_array_equal(np.load("out.noise.npy"), p.noise_samples)
    assert capsys.readouterr().out.startswith(
        "out.noise.npy, out.npy: 7 row(s)"
    )


def test_noise_is_not_overwritten(folder, capsys):
    (folder / "out.noise.npy").write_text("precious")
    assert run("--out", "out.npy", *FIXED, *LEARNED) == 1
    message = capsys.readouterr().err
    assert "`out.noise.npy` exists and is not overwritten" in message
    assert (folder / "out.noise.npy").read_text() == "precious"
    assert sorted(os.listdir()) == ["data.npy", "model.keras", "out.noise.npy"]


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv"])
def test_two_outputs_are_one_result(folder, suffix):
    files.save(two_outputs(), "pair.keras")
    out = f"out{suffix}"
    assert run("--out", out, *FIXED, *PAIR, model="pair.keras") == 0
    p = expected("pair.keras", head=TWO, return_samples=True)
    if suffix == ".npz":
        actual = kbd.Predictive.load(out)
        np.testing.assert_array_equal(actual.noise_variance, p.noise_variance)
    elif suffix == ".npy":
        np.testing.assert_array_equal(np.load(out), p.samples)
        np.testing.assert_array_equal(np.load("out.noise.npy"), p.noise_samples)
    else:
        np.testing.assert_allclose(
            column(out, "aleatoric_std_0") ** 2,
            p.noise_variance[:, 0],
            rtol=1e-5,
        )


def test_two_of_three_outputs(folder):
    files.save(two_outputs(more=True), "three.keras")
    assert run("--out", "out.npz", *FIXED, *PAIR, model="three.keras") == 0
    p = expected("three.keras", head=TWO)
    actual = kbd.Predictive.load("out.0.npz")
    np.testing.assert_array_equal(actual.noise_variance, p[0].noise_variance)
    assert kbd.Predictive.load("out.1.npz").task == "classification"


def test_what_cannot_be_read_is_said_before_the_work(folder, capsys):
    arguments = ("--out", "out.npz", *LEARNED, "--noise-outputs", "a", "b")
    assert run(*arguments) == 1
    assert "names outputs that the model does not have" in (
        capsys.readouterr().err
    )
    files.save(files.classifier(), "odd.keras")
    assert run("--out", "out.npz", *LEARNED, model="odd.keras") == 1
    assert "Expected an even number of entries" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("--out", "out.npz", "--noise-outputs", "a", "b")
    assert "--noise-outputs does not go with --head auto: expected --head " in (
        capsys.readouterr().err
    )
    assert not (folder / "out.npz").exists()


@pytest.mark.parametrize("pair", [False, True])
def test_noisy_logits(folder, pair):
    model = two_outputs() if pair else files.classifier(None, 6)
    if pair:
        hidden = model.get_layer("price").input
        model = keras.Model(
            model.inputs,
            [keras.layers.Dense(3, name=name)(hidden) for name in ("f", "s")],
        )
    model.save("noisy.keras")
    options = ["--head", "noisy_logits"]
    head = kbd.NoisyLogits()
    if pair:
        options += ["--noise-outputs", "f", "s"]
        head = kbd.NoisyLogits(logits="f", log_variance="s")
    assert run("--out", "p.npz", *FIXED, *options, model="noisy.keras") == 0
    p = expected("noisy.keras", head=head)
    assert_same(kbd.Predictive.load("p.npz"), p)
    assert p.mean.shape == (files.ROWS, 3)
