# SPDX-License-Identifier: Apache-2.0
import math
import os

import keras
import numpy as np
import pytest

from keras_bayesdrop.callbacks import KLAnnealing
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import ConcreteDropout

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
Y = X[:, :1]


class Record(keras.callbacks.Callback):
    """Notes the weight with which every batch is trained."""

    def __init__(self):
        super().__init__()
        self.weights = []

    def on_train_batch_end(self, batch, logs=None):
        layer = self.model.get_layer("dropped")
        self.weights.append(float(layer.kl_weight.numpy()))


def make_model():
    inner = keras.Sequential(
        [
            keras.Input((3,)),
            ConcreteDropout(keras.layers.Dense(4), 8, name="nested"),
        ],
        name="inner",
    )
    inputs = keras.Input((3,))
    dropped = ConcreteDropout(keras.layers.Dense(1), 8, name="dropped")
    model = keras.Model(inputs, dropped(inner(inputs)))
    model.compile("sgd", "mse", jit_compile=False)
    return model


def weight_of(model, *names):
    for name in names:
        model = model.get_layer(name)
    return float(model.kl_weight.numpy())


def fit(callback, epochs, model=None, **kwargs):
    """Fits with two batches an epoch; returns weights, history and model."""
    model = model or make_model()
    record = Record()
    history = model.fit(
        X,
        Y,
        batch_size=4,
        epochs=epochs,
        verbose=0,
        callbacks=[callback, record],
        **kwargs,
    )
    return record.weights, history.history, model


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1]),
        (
            "cosine",
            [0.5 * (1 - math.cos(math.pi * k / 8)) for k in range(8)] + [1, 1],
        ),
        # Two cycles of four batches; the weight rises in the first half.
        ("cyclic", [0.0, 0.5, 1.0, 1.0, 0.0, 0.5, 1.0, 1.0, 1, 1]),
    ],
)
def test_weight_of_every_batch(schedule, expected):
    callback = KLAnnealing(schedule, 4, cycles=2)
    weights, history, model = fit(callback, 5)
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-7)
    # The logs have that of the last batch.
    np.testing.assert_allclose(history["kl_weight"], expected[1::2], rtol=1e-6)
    assert weight_of(model, "dropped") == 1.0
    assert weight_of(model, "inner", "nested") == 1.0


def test_start_and_epochs():
    callback = KLAnnealing(epochs=4, start=0.2, update="epoch")
    weights, _, model = fit(callback, 4)
    np.testing.assert_allclose(
        weights, np.repeat([0.2, 0.4, 0.6, 0.8], 2), rtol=1e-6
    )
    # Four epochs are over, so the model is left with the whole KL.
    assert weight_of(model, "dropped") == 1.0


def test_ramp():
    callback = KLAnnealing("cyclic", 10, cycles=1, ramp=0.2, start=0.5)
    weights = [callback.weight(epoch) for epoch in (0, 1, 2, 5, 9.9, 10, 50)]
    np.testing.assert_allclose(weights, [0.5, 0.75, 1, 1, 1, 1, 1])


def test_loss_is_that_of_the_weight():
    # In one batch: loss = data + weight * KL / N, with the noise off.
    model = make_model()
    callback = KLAnnealing(epochs=4)
    callback.set_model(model)
    callback.set_params({"steps": 1})
    callback.on_train_begin()
    losses = []
    for epoch in (0, 2):
        callback.on_epoch_begin(epoch)
        losses.append(model.evaluate(X, Y, verbose=0))
    kl = sum(
        float(layer.kl_divergence())
        for layer in (
            model.get_layer("dropped"),
            model.get_layer("inner").get_layer("nested"),
        )
    )
    np.testing.assert_allclose(losses[1] - losses[0], 0.5 * kl / 8, rtol=1e-4)


def test_a_model_that_fit_builds():
    """Its first batch has the weight of the schedule, too."""
    model = keras.Sequential(
        [
            ConcreteDropout(keras.layers.Dense(4), 8),
            ConcreteDropout(keras.layers.Dense(1), 8, name="dropped"),
        ]
    )
    model.compile("sgd", "mse", jit_compile=False)
    weights, _, _ = fit(KLAnnealing("linear", 2), 2, model)
    np.testing.assert_allclose(weights, [0.0, 0.25, 0.5, 0.75])


def test_goes_on_where_it_stopped(tmp_path):
    whole, _, _ = fit(KLAnnealing(epochs=4), 4)
    first, _, model = fit(KLAnnealing(epochs=4), 2)
    path = os.path.join(tmp_path, "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    # It is a variable of the model, and so is in the file.
    assert weight_of(loaded, "dropped") == weight_of(model, "dropped") == 0.375
    assert weight_of(loaded, "inner", "nested") == 0.375
    rest, _, _ = fit(KLAnnealing(epochs=4), 4, loaded, initial_epoch=2)
    np.testing.assert_allclose(first + rest, whole)


def test_streams_of_unknown_length():
    def batches():
        while True:
            yield X[:4], Y[:4]

    callback, record = KLAnnealing(epochs=4), Record()
    make_model().fit(
        batches(),
        steps_per_epoch=2,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=[callback, record],
    )
    np.testing.assert_allclose(record.weights, [0, 0.125, 0.25, 0.375])

    # The number of batches is learned in the first epoch.
    callback.set_model(make_model())
    callback.set_params({"steps": None})
    callback.on_train_begin()
    seen = []
    for epoch in range(2):
        callback.on_epoch_begin(epoch)
        for batch in range(2):
            callback.on_train_batch_begin(batch)
            seen.append(weight_of(callback.model, "dropped"))
            callback.on_train_batch_end(batch)
        callback.on_epoch_end(epoch, {})
    np.testing.assert_allclose(seen, [0, 0, 0.25, 0.375])


def test_model_without_kl():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(
        BayesdropError, match=r"nothing to anneal.*Expected.*Received"
    ):
        model.fit(X, Y, verbose=0, callbacks=[KLAnnealing(epochs=2)])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epochs": 0}, "epochs"),
        ({"epochs": 2.5}, "epochs"),
        ({"schedule": "square"}, "schedule"),
        ({"start": 1.5}, "start"),
        ({"start": -0.1}, "start"),
        ({"cycles": 0}, "cycles"),
        ({"ramp": 0.0}, "ramp"),
        ({"ramp": 1.1}, "ramp"),
        ({"update": "step"}, "update"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises(
        BayesdropError,
        match=f"Invalid value for argument `{name}`. Expected .* "
        f"Received: {name}=",
    ):
        KLAnnealing(**{"epochs": 4, **arguments})
