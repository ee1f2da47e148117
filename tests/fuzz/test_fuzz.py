# SPDX-License-Identifier: Apache-2.0
"""A slice of the fuzz, its former findings, and tests of its judge."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.fuzz import grammar
from tests.fuzz import runner
from tests.fuzz import specs
from tests.fuzz import verdict
from tests.fuzz.kinds import KINDS
from tests.fuzz.kinds import RIGHT
from tests.fuzz.kinds import kinds_in
from tests.fuzz.seeds import FOUND
from tests.fuzz.seeds import SLICE

layers = keras.layers


@pytest.mark.parametrize("seed", SLICE)
def test_slice(seed):
    spec = grammar.spec_of(seed)
    judged = verdict.judge(grammar.build(spec))
    assert judged.outcome != "finding", (judged.what, specs.describe(spec))


@pytest.mark.parametrize("name", FOUND)
def test_found_before(name):
    judged = verdict.judge(grammar.build(FOUND[name]))
    assert judged.outcome != "finding", judged.what


def test_the_slice_has_every_kind():
    seen = {
        kind.name
        for seed in SLICE
        for kind in kinds_in(grammar.spec_of(seed)["pieces"])
    }
    assert set(KINDS) == seen


def test_a_seed_is_one_model():
    for seed in range(3):
        spec = grammar.spec_of(seed)
        assert spec == grammar.spec_of(seed)
        one, other = grammar.build(spec), grammar.build(spec)
        for a, b in zip(one.model.weights, other.model.weights, strict=True):
            np.testing.assert_array_equal(a, b)
        keras.tree.map_structure(np.testing.assert_array_equal, one.x, other.x)


# Tests of the judge itself. Brute force samples `truth`. The prediction runs
# another model, or another function takes its place.


def model_of(*members, shape=(3, 4)):
    """Returns a case of a Sequential model, weights all from one seed."""
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input(shape), *members, layers.Dense(2)])
    x = np.random.default_rng(1).uniform(0.5, 1.5, (4, *shape))
    case = grammar.Case(
        model,
        x.astype("float32"),
        RIGHT,
        (),
        per_call=False,
        mixes_rows=False,
        shares_rows=False,
        warns=False,
        fixed_rows=False,
    )
    for index, weight in enumerate(model.weights):
        rng = np.random.default_rng(index)
        weight.assign(rng.uniform(0.3, 0.9, weight.shape))
    return case


def plain():
    return model_of(layers.Dropout(0.4))


def test_what_is_right_is_right():
    assert verdict.judge(plain(), plain()) == verdict.Verdict("right")


def _moved_statistics():
    case = model_of(layers.Dropout(0.4), layers.BatchNormalization())
    mean = case.model.layers[1].moving_mean
    mean.assign(mean + 0.2)
    return case


WRONG = {
    "one mask for all steps": (
        lambda: model_of(layers.Dropout(0.4, noise_shape=(None, 1, None))),
        plain,
        "sums over axis 1",
    ),
    "a mask for every step": (
        lambda: model_of(layers.Dropout(0.4)),
        lambda: model_of(layers.SpatialDropout1D(0.4)),
        "sums over axis 1",
    ),
    "one mask for all units": (
        lambda: model_of(layers.Dropout(0.4, noise_shape=(None, None, 1))),
        plain,
        "squares",
    ),
    "a missing site": (
        lambda: model_of(layers.Dropout(0.4), layers.Dropout(0.0)),
        lambda: model_of(layers.Dropout(0.4), layers.Dropout(0.2)),
        "squares",
    ),
    "a small site is missing": (
        lambda: model_of(layers.Dropout(0.4), layers.GaussianNoise(1e-9)),
        lambda: model_of(layers.Dropout(0.4), layers.GaussianNoise(0.3)),
        "squares",
    ),
    "no scale": (
        lambda: model_of(layers.Dropout(0.4), layers.Rescaling(0.6)),
        lambda: model_of(layers.Dropout(0.4), layers.Rescaling(1.0)),
        "mean",
    ),
    "another rate": (
        lambda: model_of(layers.Dropout(0.35)),
        plain,
        "squares",
    ),
    "other statistics of BatchNormalization": (
        _moved_statistics,
        lambda: model_of(layers.Dropout(0.4), layers.BatchNormalization()),
        "mean",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_notices_another_model(name):
    wrong, truth, where = WRONG[name]
    judged = verdict.judge(wrong(), truth())
    assert judged.outcome == "finding"
    assert where in judged.what
    assert "standard errors" in judged.what


_predict = kbd.predict_with_uncertainty


def _shares_rows(*args, **kwargs):
    method = dataclasses.replace(kwargs["method"], masks="shared")
    return _predict(*args, **{**kwargs, "method": method})


def _never_varies(*args, **kwargs):
    result = _predict(*args, **kwargs)
    same = np.repeat(result.samples[:1], len(result.samples), 0)
    return dataclasses.replace(
        result, mean=same[0], variance=0 * same[0], samples=same
    )


def _depends_on_batches(*args, **kwargs):
    seed = kwargs["seed"] + (kwargs.get("batch_size") == 2)
    return _predict(*args, **{**kwargs, "seed": seed})


def _depends_on_the_engine(*args, **kwargs):
    seed = kwargs["seed"] + (kwargs["method"].engine == "reference")
    return _predict(*args, **{**kwargs, "seed": seed})


def _forgets_its_seed(*args, **kwargs):
    return _predict(*args, **{**kwargs, "seed": None})


def _trains(model, *args, **kwargs):
    model.weights[0].assign_add(1e-7 * np.ones(model.weights[0].shape))
    return _predict(model, *args, **kwargs)


def _draws_seeds(model, *args, **kwargs):
    model.layers[0].seed_generator.next()
    return _predict(model, *args, **kwargs)


def _refuses(*args, **kwargs):
    raise kbd.BayesdropError("No `dropout`. Expected a. Received: b")


def _refuses_without_names(*args, **kwargs):
    raise kbd.BayesdropError("No. Expected a. Received: b")


def _refuses_in_one_beat(*args, **kwargs):
    raise kbd.BayesdropError("No.")


def _raises(*args, **kwargs):
    raise TypeError("Expected one, Received another")


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (_shares_rows, "sums over rows"),
        (_never_varies, "standard errors"),
        (_depends_on_batches, "another batch_size"),
        (_depends_on_the_engine, "another engine"),
        (_forgets_its_seed, "other bits"),
        (_trains, "changed"),
        (_draws_seeds, "changed"),
        (_refuses, "refused"),
        (_refuses_without_names, "names no layer"),
        (_refuses_in_one_beat, "three beats"),
        (_raises, "raw error"),
    ],
)
def test_notices_another_prediction(monkeypatch, function, what):
    monkeypatch.setattr(kbd, "predict_with_uncertainty", function)
    judged = verdict.judge(plain())
    assert judged.outcome == "finding"
    assert what in judged.what


def test_a_finding_is_cut_down(monkeypatch):
    """Of a nest of pieces, the one that makes the finding is left."""

    def judge(seed, spec):
        kinds = {kind.name for kind in kinds_in(spec["pieces"])}
        is_finding = "gate" in kinds
        return runner.Result(
            seed, "finding" if is_finding else "right", "raw error: x"
        )

    monkeypatch.setattr(runner, "_judge", judge)
    gate = {"kind": "gate"}
    dense = {"kind": "dense"}
    nested = {"kind": "residual", "inner": [dense, gate, dense]}
    spec = {
        **grammar.spec_of(0),
        "pieces": [dense, {"kind": "shared", "inner": [nested]}, dense],
        "model": "subclassed",
        "open": True,
    }
    smallest = runner.cut_down(spec, "raw error: x")
    assert smallest["pieces"] == [gate]
    assert smallest["model"] == "functional"
    assert not smallest["open"]


def test_table():
    results = [
        runner.Result(0, "right", "", True, kinds=("dense", "gate")),
        runner.Result(1, "finding", "refused: no", kinds=("gate",)),
    ]
    rows = [line.split() for line in runner.table_of(results).splitlines()]
    assert rows[1] == ["gate", "1", "1", "0", "1", "1"]
    assert rows[2] == ["dense", "1", "1", "0", "0", "0"]
