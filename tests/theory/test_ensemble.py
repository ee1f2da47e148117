# SPDX-License-Identifier: Apache-2.0
"""The deterministic network of the dropout ensemble, eq. 98."""

import json
import os

import keras
import numpy as np
import pytest
import scipy.special

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.theory import ensemble_network
from keras_bayesdrop.theory import linear_moments
from keras_bayesdrop.theory import nwgm
from tests.theory.masks import all_masks

layers = keras.layers
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def _everything():
    """A model with noise of many kinds, nested and beside a shortcut."""
    inputs = keras.Input((4,), name="x")
    dropped = kbd.MCDropout(0.3)(inputs)
    hidden = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(4, activation="tanh"),
            layers.GaussianDropout(0.4),
        ]
    )(dropped)
    hidden = layers.Add()([hidden, layers.Dropout(0.2)(inputs)])
    hidden = kbd.ConcreteDropout(layers.Dense(5, activation="relu"), 100)(
        hidden
    )
    hidden = kbd.layers.VariationalDense(
        5, 100, prior="gaussian", activation="relu"
    )(hidden)
    hidden = kbd.layers.DropConnectDense(3, 0.5)(hidden)
    hidden = layers.GaussianNoise(0.3)(hidden)
    outputs = layers.BatchNormalization()(hidden)
    return keras.Model(inputs, layers.Dropout(0.5, name="y")(outputs))


def test_inverted_dropout_keeps_the_weights_and_loses_the_noise():
    model = _everything()
    before = [np.array(v) for v in model.variables]
    plain = ensemble_network(model)
    expected = kbd.deterministic(model).predict(X, verbose=0)
    outputs = plain.predict(X, verbose=0)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    assert "keras_bayesdrop" not in json.dumps(plain.get_config(), default=str)
    kinds = {type(layer).__name__ for layer in plain.layers}
    assert kinds == {
        "InputLayer",
        "Dense",
        "Add",
        "BatchNormalization",
        "Identity",
    }
    for then, now in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(then, np.array(now))


def test_there_is_no_noise_in_training_either(tmp_path):
    model = keras.Sequential(
        [keras.Input((4,)), kbd.MCDropout(0.5), layers.Dense(2)]
    )
    plain = ensemble_network(model)
    np.testing.assert_array_equal(
        plain(X, training=True), plain(X, training=False)
    )
    assert isinstance(plain, keras.Sequential)
    path = os.path.join(tmp_path, "plain.keras")
    plain.save(path)
    loaded = keras.models.load_model(path)
    np.testing.assert_array_equal(loaded(X), plain(X))


def test_linear_network_is_the_mean_over_masks_eq_24():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.3),
            layers.Dense(3),
            layers.Dropout(0.5),
            layers.Dense(2),
        ]
    )
    w1, b1, w2, b2 = model.get_weights()
    moments = linear_moments(X, [w1, w2], [0.3, 0.5], biases=[b1, b2])
    np.testing.assert_allclose(
        ensemble_network(model)(X), moments.mean, rtol=1e-5, atol=1e-6
    )


def test_logistic_unit_has_the_normalised_geometric_mean_eq_39_and_98():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.3),
            layers.Dense(2, activation="sigmoid"),
        ]
    )
    kernel, bias = model.get_weights()
    masks, chances = all_masks(np.full(4, 0.3))
    outputs = scipy.special.expit(
        (X[None] * masks[:, None] / 0.7) @ kernel + bias
    )
    np.testing.assert_allclose(
        ensemble_network(model)(X), nwgm(outputs, chances), rtol=1e-5
    )


@pytest.mark.parametrize("cls", [layers.AlphaDropout, kbd.MCAlphaDropout])
def test_alpha_dropout_is_scaled_by_its_mean(cls):
    rate = 0.3
    model = keras.Sequential([keras.Input((4,)), cls(rate), layers.Dense(2)])
    kernel, bias = (w.astype(np.float64) for w in model.get_weights())
    masks, chances = all_masks(np.full(4, rate))
    # The layer as Keras documents it, for every mask.
    s = -1.6732632423543772 * 1.0507009873554805
    a = ((1 - rate) * (1 + rate * s**2)) ** -0.5
    keep = masks[:, None]
    dropped = a * (keep * X + (1 - keep) * s) - a * s * rate
    mean = np.tensordot(chances, dropped @ kernel + bias, 1)
    plain = ensemble_network(model)
    np.testing.assert_allclose(plain(X), mean, rtol=1e-5, atol=1e-6)
    off = kbd.deterministic(model).predict(X, verbose=0)
    assert np.abs(off - mean).max() > 0.01


def test_rate_of_one_leaves_nothing():
    model = keras.Sequential(
        [keras.Input((4,)), kbd.MCDropout(1.0), layers.Dense(2)]
    )
    model.layers[-1].bias.assign([1.0, -2.0])
    np.testing.assert_array_equal(
        ensemble_network(model)(X), np.tile([1.0, -2.0], (3, 1))
    )


def test_mixed_precision():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.AlphaDropout(0.3, dtype="mixed_float16"),
            layers.Dense(2, dtype="mixed_float16"),
        ]
    )
    plain = ensemble_network(model)
    assert plain(X).dtype == "float16"
    assert plain.layers[0].dtype_policy.name == "mixed_float16"


def test_a_model_of_its_own_code_is_refused():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    model = Own()
    model(X)
    with pytest.raises(PlanError, match=r"taken apart.*Received: Own"):
        ensemble_network(model)
