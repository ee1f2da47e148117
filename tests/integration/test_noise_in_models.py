# SPDX-License-Identifier: Apache-2.0
"""Noise in recurrent layers, padding, training and failing layers."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests import zoo
from tests.helpers import flat
from tests.integration.samples import settings
from tests.zoo.subclassed import Block

SEED = 3


def rnn_with_unit_weights(**kwargs):
    """h[t] = recurrent_mask * h[t - 1] + mask * x[t], unit by unit."""
    layer = keras.layers.SimpleRNN(
        3,
        activation=None,
        use_bias=False,
        kernel_initializer="identity",
        recurrent_initializer="identity",
        return_sequences=True,
        **kwargs,
    )
    return keras.Sequential([keras.Input((4, 3)), layer])


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_one_input_mask_through_time(masks):
    model = rnn_with_unit_weights(dropout=0.5)
    p = kbd.predict_with_uncertainty(
        model,
        np.ones((3, 4, 3), "float32"),
        50,
        seed=0,
        return_samples=True,
        verbose=0,
        method=kbd.Sampling(masks=masks),
    )
    sequences = np.moveaxis(p.samples, 2, -1).reshape(-1, 4)
    kept = sequences[:, 0] > 0
    assert 0 < np.mean(kept) < 1
    np.testing.assert_array_equal(
        sequences, np.where(kept[:, None], [2, 4, 6, 8], 0)
    )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_one_recurrent_mask_through_time(masks):
    model = rnn_with_unit_weights(recurrent_dropout=0.5)
    p = kbd.predict_with_uncertainty(
        model,
        np.ones((3, 4, 3), "float32"),
        50,
        seed=0,
        return_samples=True,
        verbose=0,
        method=kbd.Sampling(masks=masks),
    )
    sequences = np.moveaxis(p.samples, 2, -1).reshape(-1, 4)
    kept = sequences[:, 1] > 1
    assert 0 < np.mean(kept) < 1
    np.testing.assert_array_equal(
        sequences, np.where(kept[:, None], [1, 3, 7, 15], 1)
    )


@pytest.mark.parametrize(
    "kind", ["functional", "subclassed_deep", "masked_lstm"]
)
def test_samples_beyond_the_first_block(kind):
    """Counters come in blocks of 16 samples."""
    model, x = zoo.ZOO[kind].build()
    p = kbd.predict_with_uncertainty(
        model, x, 35, seed=SEED, return_samples=True, verbose=0
    )
    for number in (15, 16, 34):
        view = kbd.sample_function(model, SEED, number)
        np.testing.assert_allclose(
            p.samples[number], view(x), rtol=1e-5, atol=1e-6
        )
    flat = p.samples.reshape(35, -1)
    assert len(np.unique(flat, axis=0)) > 25


def test_padding_has_no_influence():
    """The mask of an Embedding reaches the LSTM behind two dropouts."""
    model, x = zoo.ZOO["masked_lstm"].build()
    short = x[:, :2].copy()
    short[short == 0] = 1
    padded = np.concatenate([short, np.zeros_like(short)], axis=1)
    settings = {
        "num_samples": 8,
        "seed": 0,
        "return_samples": True,
        "verbose": 0,
        "layers": lambda layer: isinstance(layer, keras.layers.LSTM),
    }
    ours = kbd.predict_with_uncertainty(
        model, padded, **flat(**settings)
    ).samples
    # The same network for sequences of two steps, without masks.
    unmasked = keras.Sequential(
        [
            keras.Input((2,), dtype="int32"),
            keras.layers.Embedding(9, 3),
            keras.layers.Dropout(0.5),
            keras.layers.LSTM(3, dropout=0.3),
            keras.layers.Dense(2),
        ]
    )
    unmasked.set_weights(model.get_weights())
    theirs = kbd.predict_with_uncertainty(
        unmasked, short, **flat(**settings)
    ).samples
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert np.std(ours, axis=0).max() > 0


def fitted(look):
    """Returns all variables after two fits, with `look` in between."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu", activity_regularizer="l2"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3, seed=11),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    x = zoo.numbers(4, rows=32)
    y = x[:, :1] ** 2
    model.fit(x, y, epochs=2, batch_size=8, verbose=0)
    look(model, x)
    model.fit(x, y, epochs=2, batch_size=8, verbose=0)
    return [np.array(v) for v in (*model.variables, *model.optimizer.variables)]


def test_fit_does_not_notice():
    def look(model, x):
        kbd.predict_with_uncertainty(model, x, **flat(**settings()))
        kbd.stochastic(model, seed=1)(x)
        kbd.deterministic(model).predict(x, verbose=0)
        kbd.sample_function(model, 0)(x)
        kbd.inspect(model)
        kbd.explain(model)

    for a, b in zip(fitted(lambda *_: None), fitted(look), strict=True):
        np.testing.assert_array_equal(a, b)


class Fragile(keras.layers.Layer):
    """Fails on demand, in the middle of a call."""

    broken = False

    def call(self, x):
        if self.broken:
            raise RuntimeError("out of order")
        return x


class FragileModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.rnn = keras.layers.LSTM(3, dropout=0.5, return_sequences=True)
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.5)
        self.attention = keras.layers.Attention(dropout=0.5)
        self.fragile = Fragile()

    def call(self, x):
        x = self.norm(self.drop(self.rnn(x)))
        return self.fragile(self.attention([x, x]))


@pytest.mark.parametrize("subclassed", [True, False])
@pytest.mark.parametrize(
    "look",
    [
        lambda model, x: kbd.stochastic(model)(x),
        lambda model, x: kbd.deterministic(model)(x),
        lambda model, x: kbd.sample_function(model, 0)(x),
        lambda model, x: kbd.stochastic(model).predict(x, verbose=0),
        lambda model, x: kbd.predict_with_uncertainty(model, x, verbose=0),
    ],
)
def test_nothing_changes_when_a_layer_fails(subclassed, look):
    x = zoo.numbers(4, 3)
    if subclassed:
        model = FragileModel()
        model(x)
        fragile = model.fragile
    else:
        fragile = Fragile()
        model = keras.Sequential(
            [
                keras.Input((4, 3)),
                Block(3),
                keras.layers.LSTM(3, dropout=0.5),
                fragile,
            ]
        )
    outputs = zoo.outputs_of(model, x)
    fragile.broken = True
    before = zoo.fingerprint(model)
    with pytest.raises(RuntimeError, match="out of order"):
        look(model, x)
    assert zoo.fingerprint(model) == before
    fragile.broken = False
    assert zoo.outputs_of(model, x) == outputs


def test_variables_that_a_layer_assigns_stay():
    class Counts(keras.layers.Layer):
        def build(self, shape):
            self.count = self.add_weight(
                shape=(), initializer="zeros", trainable=False
            )

        def call(self, x):
            self.count.assign_add(1.0)
            return x

    counts = Counts()
    model = keras.Sequential(
        [keras.Input((4,)), counts, keras.layers.Dropout(0.5), Counts()]
    )
    x = zoo.numbers(4)
    model(x)
    assert float(counts.count) == 1.0
    kbd.predict_with_uncertainty(model, x, **flat(**settings()))
    kbd.stochastic(model)(x)
    assert float(counts.count) == 1.0
    model(x)
    assert float(counts.count) == 2.0


def test_noise_in_layers_that_are_called_more_often():
    model, x = zoo.ZOO["layers_with_layers"].build()
    kbd.stochastic(model)(x)
    model.layers[0].repeats = 1
    fresh = keras.Sequential([keras.Input((4,)), *model.layers])
    np.testing.assert_array_equal(
        kbd.sample_function(model, 0)(x), kbd.sample_function(fresh, 0)(x)
    )
