# SPDX-License-Identifier: Apache-2.0
"""A seal breaks whenever the version of a model may have changed."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.fingerprint import version_of
from keras_bayesdrop.graph.seal import Seal
from tests.prediction.changes import CHANGES
from tests.prediction.changes import X
from tests.prediction.changes import make

layers = keras.layers


def sealed(model):
    seal = Seal(model)
    assert seal.is_intact()
    assert seal.version == version_of(model)
    return seal


@pytest.mark.parametrize("change", CHANGES)
def test_changes_break_it(change):
    model = make(where="behind")
    seal = sealed(model)
    CHANGES[change](model)
    assert version_of(model) != seal.version
    assert not seal.is_intact()
    assert sealed(model).version == version_of(model)


def closure(model):
    slope = 1.0

    def change(value):
        nonlocal slope
        slope = value

    model.get_layer("own").function = lambda x: x * slope
    return lambda: change(2.0)


def replace_none(model):
    """One attribute for another, whose value was `None` before."""
    own = model.get_layer("own")
    own.nothing = None

    def change():
        del own.nothing
        own.something = 3

    return change


def swap_weights(model):
    hidden = model.get_layer("hidden")

    def change():
        held = hidden._trainable_variables
        held[0], held[1] = held[1], held[0]

    return change


def set_policy(model):
    return lambda: setattr(model.get_layer("hidden"), "dtype_policy", "float64")


OTHERS = {
    "closure": closure,
    "attribute for another": replace_none,
    "order of weights": swap_weights,
    "policy": set_policy,
    "trainable": lambda m: lambda: setattr(m.layers[0], "trainable", False),
    "added layer": lambda m: lambda: m.add(layers.Dense(2)),
    "removed layer": lambda m: lambda: m.pop(),
    "compile": lambda m: lambda: m.compile("sgd", "mse"),
    "class": lambda m: (
        lambda: setattr(
            m.get_layer("own"),
            "__class__",
            type("Other", (type(m.layers[-3]),), {}),
        )
    ),
    "cleared": lambda m: lambda: kbd.clear_cache(m),
}


@pytest.mark.parametrize("prepare", OTHERS.values(), ids=OTHERS)
def test_other_changes_break_it(prepare):
    model = make(where="behind")
    change = prepare(model)
    seal = sealed(model)
    change()
    assert not seal.is_intact()
    assert version_of(model) != seal.version


def test_operations_that_are_no_layers_count():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, keras.ops.leaky_relu(inputs, 0.1))
    operations = [model.operations[-1]]
    seal = Seal(model, operations)
    assert seal.is_intact()
    operations[0].negative_slope = 0.7
    assert not seal.is_intact()
    assert version_of(model, operations) != seal.version


def predict(model):
    method = kbd.Sampling(engine="reference")
    kbd.predict_with_uncertainty(model, X, 4, method=method, verbose=0)


def test_weights_do_not_break_it():
    model = make(where="behind")
    model.compile("sgd", "mse")
    model.fit(X, np.zeros((5, 2)), verbose=0)
    predict(model)
    seal = sealed(model)
    model.fit(X, np.zeros((5, 2)), verbose=0)
    model.set_weights([w + 1 for w in model.get_weights()])
    predict(model)
    assert seal.is_intact()
