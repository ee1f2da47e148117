# SPDX-License-Identifier: Apache-2.0
"""Models and calls that the tests of exports share."""

import keras
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.serving import export_uncertainty
from keras_bayesdrop.serving._signature import inputs_of
from tests.helpers import flat

layers = keras.layers

SEED = 9

T = 20


def predict(model, x, **kwargs):
    settings = {
        "num_samples": T,
        "seed": SEED,
        "verbose": 0,
        "engine": "reference",
        **kwargs,
    }
    return kbd.predict_with_uncertainty(model, x, **flat(**settings))


def export(model, path, **kwargs):
    settings = {"num_samples": T, "seed": SEED, **kwargs}
    export_uncertainty(model, path, **flat(**settings))
    return tf.saved_model.load(str(path)).signatures


def named_inputs(model, x, input_signature=None):
    """Returns inputs by their names in a signature."""
    if isinstance(x, dict):
        return {name: tf.constant(value) for name, value in x.items()}
    names = inputs_of(model, input_signature).specs
    leaves = keras.tree.flatten(x)
    return {
        name: tf.constant(leaf)
        for name, leaf in zip(names, leaves, strict=True)
    }


def classifier(activation="softmax", outputs=3):
    return keras.Sequential(
        [
            keras.Input((4,), name="features"),
            layers.Dense(8, activation="tanh"),
            layers.Dropout(0.5),
            layers.Dense(outputs, activation=activation),
        ]
    )


def predictions_by_prefix(model, p):
    """Returns predictions by the prefix of their names."""
    if isinstance(p, kbd.Predictive):
        return {"": p}
    if isinstance(p, dict):
        return {f"{name}_": each for name, each in p.items()}
    names = [f"{name}_" for name in model.output_names]
    if len(set(names)) < len(names):
        names = [f"output_{number}_" for number in range(len(p))]
    return dict(zip(names, p, strict=True))


def assert_refused(model, path, *words, kind=kbd.BayesdropError, **kwargs):
    with pytest.raises(kind) as caught:
        export_uncertainty(model, path, **flat(**kwargs))
    text = str(caught.value)
    assert 0 < text.find("Expected") < text.find("Received"), text
    for word in words:
        assert word in text, text
