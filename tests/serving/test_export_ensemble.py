# SPDX-License-Identifier: Apache-2.0
"""Exports of ensembles predict what the library predicts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.random.seeds import member_key
from keras_bayesdrop.random.seeds import member_seed
from keras_bayesdrop.serving.quantities import OF_CLASSES
from keras_bayesdrop.serving.quantities import QUANTITIES
from tests.serving.exports import assert_refused

T = 20
REFERENCE = kbd.Sampling(engine="reference")


def network(rate, activation, seed, outputs=3):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((4,), name="features"),
            keras.layers.Dense(8 + seed, activation="relu"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(9, 4)).astype("float32")


@pytest.mark.parametrize("seed", [0, 5, -7, 2**63 + 11])
def test_keys_are_seeds(seed):
    key = tf.constant(seed % 2**64, tf.uint64)
    for number in range(4):
        assert int(member_key(key, number)) == member_seed(seed, number)


@pytest.mark.parametrize("activation", [None, "softmax", "sigmoid"])
@pytest.mark.parametrize("rates", [(0.2, 0.4), (0.3, 0.0), (0.0, 0.0, 0.0)])
def test_numbers_are_those_of_predict(activation, rates, x, tmp_path):
    models = [network(rate, activation, n) for n, rate in enumerate(rates)]
    wanted = [
        name
        for name in QUANTITIES
        if activation is not None or name not in OF_CLASSES
    ]
    kbd.export_uncertainty(
        models, tmp_path / "e", T, outputs=wanted, seed=3, quantiles=[0.2, 0.5]
    )
    served = tf.saved_model.load(tmp_path / "e")
    outputs = served.signatures["serving_default"](features=x)
    p = kbd.predict_with_uncertainty(
        models,
        x,
        T,
        seed=3,
        verbose=0,
        quantiles=[0.2, 0.5],
        method=REFERENCE,
    )
    for name in wanted:
        attribute = "predictive_entropy" if name == "entropy" else name
        np.testing.assert_allclose(
            outputs[name],
            getattr(p, attribute),
            rtol=2e-5,  # Sums of products in another order, some roundings.
            atol=2e-6,
            err_msg=name,
        )
    np.testing.assert_allclose(
        outputs["quantiles"],
        np.moveaxis(p.quantile_values, 0, 1),
        rtol=2e-5,
        atol=2e-6,
    )
    again = served.signatures["with_seed"](
        features=x,
        seed=tf.constant(3, tf.int64),
        first_row=tf.zeros([], "int64"),
    )
    np.testing.assert_array_equal(again["mean"], outputs["mean"])


def test_learned_noise(x, tmp_path):
    models = [network(0.3, None, 0, 2), network(0.0, None, 1, 2)]
    head = kbd.Heteroscedastic()
    kbd.export_uncertainty(
        models, tmp_path / "e", T, outputs=["aleatoric", "total"], head=head
    )
    served = tf.saved_model.load(tmp_path / "e").signatures["serving_default"]
    p = kbd.predict_with_uncertainty(
        models, x, T, seed=0, verbose=0, head=head, method=REFERENCE
    )
    outputs = served(features=x)
    np.testing.assert_allclose(outputs["aleatoric"], p.aleatoric, rtol=2e-5)
    np.testing.assert_allclose(outputs["total"], p.total, rtol=2e-5)


def test_refused(tmp_path):
    path = tmp_path / "e"
    one = network(0.2, None, 0)
    assert_refused([], path, "at least one")
    assert_refused([network(0.0, None, 0)], path, "two networks")
    assert_refused([one, network(0.2, "softmax", 1)], path, "network 1")
    assert_refused([one, network(0.2, None, 1, 2)], path, "network 1")
    assert not path.exists()
