# SPDX-License-Identifier: Apache-2.0
"""Cached programs: when they are refreshed, kept and dropped."""

import gc
import weakref

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.cache import programs
from tests.prediction.changes import X
from tests.prediction.changes import make
from tests.prediction.changes import samples

layers = keras.layers


def test_a_loss_compiled_later_decides_the_task():
    model = make(where="before")
    assert samples(model).shape == (2, 5, 2)
    for loss, from_logits, task in (
        ("mse", None, "regression"),
        (
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            True,
            "classification",
        ),
        ("mse", None, "regression"),
    ):
        model.compile("sgd", loss)
        for method in ("sampling", "moments", "rao_blackwell"):
            np.testing.assert_array_equal(
                samples(model, method=method),
                samples(
                    model, method=method, head=task, from_logits=from_logits
                ),
            )


@pytest.mark.parametrize("method", ["sampling", "moments", "rao_blackwell"])
@pytest.mark.parametrize(
    "refresh", [lambda m: m.compile("sgd", "mse"), kbd.clear_cache]
)
def test_compile_and_clear_cache_refresh(method, refresh):
    """Even what cannot be noticed."""
    model, twin = make(where="before"), make(where="before")
    before = samples(model, method=method)
    for each in (model, twin):
        each.get_layer("own")._private = 2.0
    np.testing.assert_array_equal(samples(model, method=method), before)
    refresh(model)
    after = samples(model, method=method)
    np.testing.assert_array_equal(after, samples(twin, method=method))
    assert np.abs(after - before).max() > 1e-3


def test_clear_cache_drops_programs():
    model, other = make(where="before"), make(where="before")
    samples(model)
    samples(other)
    kept = programs.count(other)
    assert programs.count(model) and kept
    kbd.clear_cache(kbd.stochastic(model))
    assert programs.count(model) == 0
    assert programs.count(other) == kept
    kbd.clear_cache()
    assert programs.count() == 0


def test_clear_cache_takes_models_only():
    with pytest.raises(kbd.BayesdropError, match="Received"):
        kbd.clear_cache(5)


# What must not count as a change.


def test_training_does_not_compile_again():
    model = make(where="before")
    model.compile("sgd", "mse")
    samples(model)
    traces = programs.made(model)
    targets = np.zeros((5, 2), "float32")
    stop = keras.callbacks.EarlyStopping("loss", patience=1)
    model.fit(X, targets, epochs=2, verbose=0, callbacks=[stop])
    model.evaluate(X, targets, verbose=0)
    model.predict(X, verbose=0)
    model.train_on_batch(X, targets)
    samples(model)
    assert programs.made(model) == traces


class Notes(layers.Layer):
    """Keeps results of its calls, as people do to look at them."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.calls = 0
        self.scores = None
        self.gain = 1.0

    def call(self, x):
        self.calls += 1
        self.scores = keras.ops.softmax(x)
        return x * self.gain


@pytest.mark.parametrize("model_of", [keras.Sequential, "subclassed"])
def test_results_that_layers_keep_are_no_change(model_of):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.parts = [Notes(), layers.Dropout(0.5)]

        def call(self, x):
            for part in self.parts:
                x = part(x)
            return x

    if model_of == "subclassed":
        model = Subclassed()
        notes = model.parts[0]
    else:
        notes = Notes()
        model = model_of([keras.Input((6,)), notes, layers.Dropout(0.5)])
    model(X)
    before = samples(model)
    traces = programs.made(model)
    for _ in range(3):
        model(X)
        np.testing.assert_array_equal(samples(model), before)
    assert programs.made(model) == traces
    notes.gain = 2.0
    assert np.abs(samples(model) - before).max() > 1e-3


def test_nan_is_no_change():
    model = make(where="before")
    model.get_layer("own").unused = float("nan")
    samples(model)
    traces = programs.made(model)
    model.get_layer("own").unused = float("nan") * 2
    samples(model)
    assert programs.made(model) == traces


# Bounds.


def test_programs_are_bounded_and_models_are_let_go():
    model = make(where="before")
    drop = model.get_layer("drop")
    own = model.get_layer("own")
    for number in range(programs.per_owner + 5):
        drop.rate = 0.3 + number / 100
        # Refers to the model, and is in its fingerprint.
        own.function = lambda x, model=model: x * 2.0
        samples(model)
    assert programs.count(model) == programs.per_owner
    gone = weakref.ref(model)
    del model, drop, own
    keras.utils.clear_session()
    gc.collect()
    assert gone() is None
