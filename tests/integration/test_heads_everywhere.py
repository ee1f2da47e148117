# SPDX-License-Identifier: Apache-2.0
"""The detected head in the monitor, the command, exports and decisions."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop_command import main
from tests.prediction import head_models
from tests.prediction.head_models import concrete
from tests.prediction.head_models import dense
from tests.prediction.head_models import sequence

REFERENCE = kbd.Sampling(engine="reference")
X = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
Y = np.arange(12) % 3


def learned(activation="softmax", loss=head_models.SPARSE):
    """The first example of `docs/learned_dropout.md`, smaller."""
    keras.utils.set_random_seed(1)
    return sequence(
        concrete(dense(8, "relu")), concrete(dense(3, activation)), loss=loss
    )


def test_monitor():
    monitor = kbd.callbacks.UncertaintyMonitor((X, Y), 4, method=REFERENCE)
    history = learned().fit(X, Y, epochs=2, verbose=0, callbacks=[monitor])
    for name in ("val_mc_accuracy", "val_mc_ece", "val_mutual_information"):
        assert len(history.history[name]) == 2
    assert "val_mc_rmse" not in history.history


def test_monitor_refuses_before_an_epoch():
    model = learned(None)
    before = model.get_weights()
    monitor = kbd.callbacks.UncertaintyMonitor((X, Y), 4, method=REFERENCE)
    with pytest.raises(BayesdropError, match="from_logits=True"):
        model.fit(X, Y, verbose=0, callbacks=[monitor])
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_monitor_of_the_wrong_head():
    monitor = kbd.callbacks.UncertaintyMonitor(
        (X, Y), 4, method=REFERENCE, head="regression"
    )
    monitor.set_model(learned())
    with pytest.raises(BayesdropError, match=r"Expected.*\(12, 3\).*Received"):
        monitor.evaluate()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", X)
    return tmp_path


COMMAND = ("predict", "model.keras", "data.npy", "--samples", "4", "--out")


def test_command(folder, capsys):
    learned().save("model.keras")
    assert main([*COMMAND, "p.csv", "--engine", "reference"]) == 0
    assert "output: classification, shape (12, 3)" in capsys.readouterr().out
    header, *rows = (folder / "p.csv").read_text().splitlines()
    assert header.split(",")[:2] == ["row", "class"]
    assert "mutual_information" in header
    assert {row.split(",")[1] for row in rows} <= {"0", "1", "2"}


def test_command_refuses_logits_without_from_logits(folder, capsys):
    learned(None).save("model.keras")
    assert main([*COMMAND, "p.csv", "--engine", "reference"]) != 0
    assert "from_logits=True" in capsys.readouterr().err
    assert not (folder / "p.csv").exists()
    options = ("--engine", "reference", "--head", "classification")
    assert main([*COMMAND, "p.csv", *options, "--from-logits"]) == 0


def test_command_warns_of_classes(folder, capsys):
    model = head_models.own()
    model.save("model.keras")
    assert main([*COMMAND, "p.csv", "--engine", "reference"]) == 0
    assert "head='classification'" in capsys.readouterr().err


def test_export(tmp_path):
    wanted = ("mean", "mutual_information")
    kbd.export_uncertainty(learned(), tmp_path / "served", 4, outputs=wanted)
    served = tf.saved_model.load(tmp_path / "served")
    (name,) = served.signatures["serving_default"].structured_input_signature[1]
    result = served.signatures["serving_default"](**{name: tf.constant(X)})
    assert result["mutual_information"].shape == (12,)
    with pytest.raises(BayesdropError, match="from_logits=True"):
        kbd.export_uncertainty(learned(None), tmp_path / "other", 4)


def test_export_of_a_model_with_its_own_call(tmp_path):
    """Made-up rows are the witness: there is no batch."""
    signature = tf.TensorSpec([None, 4])

    def export(model, name, **kwargs):
        kbd.export_uncertainty(
            model, tmp_path / name, 4, input_signature=signature, **kwargs
        )

    with pytest.raises(BayesdropError, match="not the probabilities"):
        export(head_models.own(None, loss=head_models.SPARSE), "a")
    assert not list(tmp_path.iterdir())
    with pytest.warns(BayesdropWarning, match="looks like a classification"):
        export(head_models.own(), "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error", BayesdropWarning)
        export(head_models.own(loss=head_models.SPARSE), "c")
        export(head_models.own(), "d", head="classification")


def test_cascade_and_views():
    model = learned()
    cascade = kbd.decisions.Cascade(
        model,
        kbd.stochastic(model),
        budget=0.5,
        num_samples=4,
        method=REFERENCE,
    )
    result = cascade.predict(X)
    assert result.fast.task == result.slow.task == "classification"
    assert len(result.deferral.rows) == 6


def test_thompson_sampler():
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    sampler = kbd.decisions.ThompsonSampler(
        learned(None, logits), seed=0, head="auto", method=REFERENCE
    )
    np.testing.assert_allclose(sampler.sample()(X).sum(-1), 1.0, atol=1e-5)
    sampler = kbd.decisions.ThompsonSampler(
        learned(None), seed=0, head="auto", method=REFERENCE
    )
    with pytest.raises(BayesdropError, match="from_logits=True"):
        sampler.sample()(X)
