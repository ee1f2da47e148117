# SPDX-License-Identifier: Apache-2.0
"""`UncertaintyMonitor` of models that learn their noise."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats

import keras_bayesdrop as kbd
from keras_bayesdrop.callbacks import UncertaintyMonitor
from tests.callbacks.monitored import SAMPLES
from tests.callbacks.monitored import SEED
from tests.callbacks.monitored import evaluated
from tests.callbacks.monitored import make_data
from tests.callbacks.monitored import make_model

X, Y = make_data()
LABELS = np.arange(20) % 3


def outputs_of(model):
    """Samples of the raw outputs, [samples, rows, outputs]."""
    return kbd.predict_with_uncertainty(
        model,
        X,
        SAMPLES,
        seed=SEED,
        head="regression",
        return_samples=True,
        verbose=0,
    )


def expected_logs(mean, log_variance, y):
    """The logs by their definitions, from samples [samples, rows, outputs]."""
    mean, noise = mean.astype(np.float64), np.exp(log_variance, dtype=float)
    logs = scipy.stats.norm.logpdf(y, mean, np.sqrt(noise)).sum(axis=-1)
    return {
        "mc_nll": -np.mean(
            scipy.special.logsumexp(logs, axis=0) - np.log(len(mean))
        ),
        "mc_rmse": np.sqrt(np.mean((mean.mean(axis=0) - y) ** 2)),
        "epistemic": mean.var(axis=0, ddof=1).mean(),
        "aleatoric": noise.mean(),
    }


def assert_logs(logs, expected, prefix="val_"):
    for key, value in expected.items():
        assert logs[prefix + key] == pytest.approx(value, rel=1e-4), key


def test_one_output():
    model = make_model(2)
    logs = evaluated(model, (X, Y), head="heteroscedastic")
    samples = outputs_of(model).samples
    expected = expected_logs(samples[..., :1], samples[..., 1:], Y)
    assert set(logs) == {f"val_{key}" for key in expected}
    assert_logs(logs, expected)


def two_outputs(structure, more=False):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dropout(0.3)(keras.layers.Dense(8)(inputs))
    # The log variance comes first, so that positions matter.
    outputs = {
        "spread": keras.layers.Dense(1, name="spread")(hidden),
        "level": keras.layers.Dense(1, name="level")(hidden),
    }
    if more:
        dense = keras.layers.Dense(3, activation="softmax", name="kind")
        outputs["kind"] = dense(hidden)
    if structure == "list":
        outputs = list(outputs.values())
    return keras.Model(inputs, outputs)


HEAD = kbd.Heteroscedastic(mean="level", log_variance="spread")
BY_POSITION = kbd.Heteroscedastic(mean=1, log_variance=0)


def pair_logs(model):
    samples = outputs_of(model)
    if isinstance(samples, list):
        spread, level = samples[:2]
    else:
        spread, level = samples["spread"], samples["level"]
    return expected_logs(level.samples, spread.samples, Y)


@pytest.mark.parametrize(
    ("structure", "head", "y"),
    [
        ("dict", HEAD, Y),
        ("dict", HEAD, {"level": Y}),
        ("dict", HEAD, {"level": Y, "spread": 0 * Y}),
        ("list", HEAD, Y),
        ("list", BY_POSITION, [0 * Y, Y]),
        ("list", HEAD, [0 * Y, Y]),
        ("list", HEAD, [Y]),
        ("list", HEAD, {"level": Y}),
    ],
)
def test_two_outputs_are_one_result(structure, head, y):
    model = two_outputs(structure)
    logs = evaluated(model, (X, y), head=head)
    expected = pair_logs(model)
    assert set(logs) == {f"val_{key}" for key in expected}
    assert_logs(logs, expected)


@pytest.mark.parametrize(
    ("structure", "y"),
    [
        ("dict", {"level": Y, "kind": LABELS}),
        ("dict", {"level": Y, "spread": 0 * Y, "kind": LABELS}),
        ("list", [Y, LABELS]),
        ("list", [0 * Y, Y, LABELS]),
        ("list", {"level": Y, "kind": LABELS}),
    ],
)
def test_targets_of_other_outputs_stay_theirs(structure, y):
    model = two_outputs(structure, more=True)
    logs = evaluated(model, (X, y), head=HEAD)
    assert_logs(logs, pair_logs(model), "val_level_")
    p = kbd.predict_with_uncertainty(
        model, X, SAMPLES, seed=SEED, verbose=0, head=HEAD
    )
    kinds = p["kind"] if structure == "dict" else p[1]
    right = np.mean(kinds.mean.argmax(-1) == LABELS)
    assert logs["val_kind_mc_accuracy"] == pytest.approx(right)


def test_learns_in_fit():
    model = make_model(2)
    monitor = UncertaintyMonitor((X, Y), 8, head="heteroscedastic")
    model.compile("sgd", kbd.losses.HeteroscedasticGaussianNLL())
    history = model.fit(X, Y, epochs=2, callbacks=[monitor], verbose=0).history
    assert len(history["val_mc_nll"]) == len(history["val_aleatoric"]) == 2
    assert "val_noise_precision" not in history
