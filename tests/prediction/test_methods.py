# SPDX-License-Identifier: Apache-2.0
"""The objects that hold a user's choices: what they take, and as what."""

import dataclasses
import json
import os
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.choice import serialize
from keras_bayesdrop.prediction import methods

CHOICES = [
    kbd.Sampling(),
    kbd.Sampling(masks="independent", tolerance=0.1, engine="reference"),
    kbd.Sampling(absolute_tolerance=2),
    kbd.Moments(),
    kbd.Moments(covariance="full", fallback="sampling"),
    kbd.Moments(fallback=kbd.Sampling(masks="independent")),
    kbd.RaoBlackwell(),
    kbd.RaoBlackwell(covariance="diagonal", masks="independent"),
]
OLD = {
    "masks": "shared",
    "engine": "auto",
    "tolerance": 0.1,
    "absolute_tolerance": 0.1,
    "covariance": "full",
    "fallback": "sampling",
    "task": "regression",
    "from_logits": True,
    "noise_precision": 1.0,
}


def network():
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )


X = np.linspace(-1, 1, 12).reshape(4, 3).astype("float32")


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_config_makes_an_equal_object(choice):
    assert type(choice).from_config(choice.get_config()) == choice
    text = json.dumps(serialize(choice))
    assert methods.get(json.loads(text)) == choice
    assert pickle.loads(pickle.dumps(choice)) == choice
    assert eval(repr(choice), vars(kbd)) == choice
    assert hash(choice) == hash(dataclasses.replace(choice))


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_choices_are_frozen_and_named(choice):
    field = dataclasses.fields(choice)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(choice, field, "shared")
    with pytest.raises(TypeError, match="positional"):
        type(choice)("shared")
    assert methods.get(choice.name) == type(choice)()


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: kbd.Sampling(masks="both"), "masks"),
        (lambda: kbd.Sampling(engine="gpu"), "engine"),
        (lambda: kbd.Sampling(tolerance=-1), "tolerance"),
        (lambda: kbd.Sampling(tolerance=1e-200), "tolerance"),
        (lambda: kbd.Sampling(absolute_tolerance="x"), "absolute_tolerance"),
        (lambda: kbd.Moments(covariance="half"), "covariance"),
        (lambda: kbd.Moments(covariance=None), "covariance"),
        (lambda: kbd.Moments(fallback="moments"), "fallback"),
        (lambda: kbd.Moments(fallback=kbd.RaoBlackwell()), "fallback"),
        (lambda: kbd.RaoBlackwell(covariance="half"), "covariance"),
        (lambda: kbd.RaoBlackwell(fallback="moments"), "fallback"),
        (lambda: kbd.RaoBlackwell(masks=0), "masks"),
        (lambda: methods.get("samples"), "method"),
        (lambda: methods.get(None), "method"),
        (lambda: methods.get(kbd.Sampling), "method"),
        (lambda: methods.get({"class_name": "Sampling"}), "method"),
        (
            lambda: methods.get({"class_name": "Other", "config": {}}),
            "method",
        ),
        (lambda: kbd.Sampling.from_config({"mask": "shared"}), "config"),
    ],
)
def test_bad_choices_are_refused_in_three_beats(make, argument):
    with pytest.raises(kbd.BayesdropError) as caught:
        make()
    text = str(caught.value)
    assert f"`{argument}`" in text
    assert "Expected" in text and "Received" in text


def test_choices_of_one_class_are_not_those_of_another():
    with pytest.raises(kbd.BayesdropError, match="'sampling', Sampling"):
        get_choice(kbd.Moments(), "method", (kbd.Sampling,))


@pytest.mark.parametrize("name", list(OLD))
def test_old_keywords_name_the_new_spelling(name):
    model = network()
    callers = (
        lambda **kw: kbd.predict_with_uncertainty(model, X, **kw),
        lambda **kw: kbd.export_uncertainty(model, "never_written", **kw),
        lambda **kw: kbd.callbacks.UncertaintyMonitor((X, X), **kw),
    )
    for caller in callers:
        with pytest.raises(kbd.BayesdropError) as caught:
            caller(**{name: OLD[name]})
        text = str(caught.value)
        assert f"`{name}`" in text and f"Received: {name}=" in text
        new = "head=" if name in ("task", "from_logits") else ""
        assert new in text and ("method=" in text or "head=" in text)
    assert not os.path.exists("never_written")


def test_a_name_an_object_and_a_config_are_the_same_method():
    model = network()
    for method in ("sampling", "moments", "rao_blackwell"):
        expected = kbd.predict_with_uncertainty(
            model, X, 20, seed=1, method=method, verbose=0
        )
        choice = methods.get(method)
        for same in (choice, serialize(choice)):
            p = kbd.predict_with_uncertainty(
                model, X, 20, seed=1, method=same, verbose=0
            )
            np.testing.assert_array_equal(p.mean, expected.mean)
            np.testing.assert_array_equal(p.variance, expected.variance)
        assert expected.stats.method == method


def test_choices_of_the_fallback_count():
    inputs = keras.Input((3,))
    x = keras.layers.Dropout(0.5)(inputs)
    x = keras.layers.LayerNormalization()(x)
    x = keras.layers.Dropout(0.5)(keras.layers.Dense(4)(x))
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    rows = np.repeat(X[1:2], 2, axis=0)

    def predict(fallback):
        method = kbd.Moments(fallback=fallback)
        return kbd.predict_with_uncertainty(
            model, rows, 30, seed=0, method=method, verbose=0
        )

    shared = predict("sampling")
    assert shared.mean[0] == shared.mean[1]
    independent = predict(kbd.Sampling(masks="independent"))
    assert independent.mean[0] != independent.mean[1]


def test_choices_need_neither_tensorflow_nor_keras():
    folder = os.path.dirname(kbd.__file__)
    program = (
        "import sys, types\n"
        "root = types.ModuleType('keras_bayesdrop')\n"
        f"root.__path__ = [{folder!r}]\n"
        "sys.modules['keras_bayesdrop'] = root\n"
        "from keras_bayesdrop.prediction import methods\n"
        "from keras_bayesdrop.predictive import heads\n"
        "methods.Moments(fallback='sampling'); heads.Regression()\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
