# SPDX-License-Identifier: Apache-2.0
"""A change of the model counts at the next prediction.

Each change is made to a model that has predicted before, and to a twin that
has not: both must predict the same bits, and other bits than before the change.
"""

import gc

import keras
import numpy as np
import pytest

from keras_bayesdrop.graph.cache import programs
from tests.prediction.changes import CHANGES
from tests.prediction.changes import Own
from tests.prediction.changes import X
from tests.prediction.changes import find
from tests.prediction.changes import make
from tests.prediction.changes import samples

layers = keras.layers


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["before", "behind"])
def test_sampling_sees_changes(where, change):
    model, twin = make(where=where), make(where=where)
    before = samples(model)
    np.testing.assert_array_equal(samples(model), before)
    CHANGES[change](model)
    CHANGES[change](twin)
    after = samples(model)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(after, samples(twin))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", ["moments", "rao_blackwell"])
def test_closed_forms_see_changes(method, change):
    model, twin = make(where="before"), make(where="before")
    before = samples(model, method=method)
    CHANGES[change](model)
    CHANGES[change](twin)
    after = samples(model, method=method)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(after, samples(twin, method=method))


@pytest.mark.parametrize("method", ["sampling", "moments", "rao_blackwell"])
@pytest.mark.parametrize("change", ["negative_slope", "epsilon", "scale"])
def test_rules_behind_noise_see_changes(method, change):
    def behind():
        model = make(where="behind")
        kept = [la for la in model.layers if not isinstance(la, Own)]
        kept[2].activation = keras.activations.relu
        return keras.Sequential([keras.Input((6,)), *kept])

    model, twin = behind(), behind()
    before = samples(model, method=method)
    CHANGES[change](model)
    CHANGES[change](twin)
    after = samples(model, method=method)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(after, samples(twin, method=method))


@pytest.mark.parametrize("method", ["sampling", "moments", "rao_blackwell"])
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_bias_that_is_there_is_added(method, engine):
    """Keras' Dense reads `use_bias` when it is built, not when called."""
    settings = {} if method == "moments" else {"engine": engine}
    model, twin = make(where="before"), make(where="before")
    before = samples(model, method=method, **settings)
    for each in (model, twin):
        each.layers[-1].use_bias = False
    after = samples(model, method=method, **settings)
    np.testing.assert_array_equal(
        after, samples(twin, method=method, **settings)
    )
    np.testing.assert_array_equal(after, before)


def test_a_convolution_reads_use_bias_when_called():
    def convolution():
        keras.utils.set_random_seed(3)
        return keras.Sequential(
            [
                keras.Input((6, 1)),
                layers.Dropout(0.5),
                layers.Conv1D(2, 3, bias_initializer="ones"),
                layers.Flatten(),
            ]
        )

    for method in ("sampling", "moments"):
        model, twin = convolution(), convolution()
        before = samples(model, method=method, x=X[..., None])
        for each in (model, twin):
            each.layers[1].use_bias = False
        after = samples(model, method=method, x=X[..., None])
        assert np.abs(after - before).max() > 0.5
        np.testing.assert_array_equal(
            after, samples(twin, method=method, x=X[..., None])
        )


def test_going_back_compiles_nothing():
    model = make(where="behind")
    before = samples(model)
    layer = find(model, layers.LeakyReLU)
    layer.negative_slope = 0.7
    samples(model)
    traces = programs.made(model)
    layer.negative_slope = 0.2
    np.testing.assert_array_equal(samples(model), before)
    assert programs.made(model) == traces


def test_functions_are_not_told_apart_by_their_address():
    """A new function may lie where an old one was."""
    model = make(where="before")
    dense = find(model, layers.Dense)
    seen = []
    for number in range(30):
        dense.activation = None
        gc.collect()
        dense.activation = eval(f"lambda x: x * 0 + {number / 50}")
        seen.append(samples(model).tobytes())
    assert len(set(seen)) == 30


def test_variables_of_a_closure_count():
    def closure():
        slope = 1.0

        def change(value):
            nonlocal slope
            slope = value

        return lambda x: x * slope, change

    model = make(where="before")
    find(model, layers.Dense).activation, change = closure()
    before = samples(model)
    change(5.0)
    assert np.abs(samples(model) - before).max() > 1e-3


class Repeats(keras.Model):
    """Draws as often as an attribute says."""

    def __init__(self):
        super().__init__()
        self.repeats = 1
        self.units = 3
        self.dense = layers.Dense(6, kernel_initializer="orthogonal")
        self.drop = layers.Dropout(0.5)

    def call(self, x):
        for _ in range(self.repeats):
            x = self.drop(self.dense(x))
        return x[:, : self.units]


def test_subclassed_models_see_changes_of_draws_and_shapes():
    def repeats():
        keras.utils.set_random_seed(3)
        model = Repeats()
        model(X)
        return model

    model, twin = repeats(), repeats()
    samples(model)
    for each in (model, twin):
        each.repeats, each.units = 3, 2
    after = samples(model)
    assert after.shape == (2, 5, 2)
    np.testing.assert_array_equal(after, samples(twin))


class Repeated(layers.Layer):
    """A layer that draws as often as an attribute says."""

    def __init__(self):
        super().__init__()
        self.repeats = 1
        self.drop = layers.Dropout(0.5)

    def call(self, x):
        for _ in range(self.repeats):
            x = self.drop(x)
        return x


def test_sites_behind_are_numbered_by_the_draws_there_are():
    def repeated():
        return keras.Sequential(
            [keras.Input((6,)), Repeated(), layers.Dropout(0.5)]
        )

    model, twin = repeated(), repeated()
    samples(model)
    for each in (model, twin):
        each.layers[0].repeats = 3
    np.testing.assert_array_equal(samples(model), samples(twin))
