# SPDX-License-Identifier: Apache-2.0
"""A change of the model counts at the next prediction.

Each change is made to a model that has predicted before, and to a twin that
has not: both must predict the same bits, and others than before the change.
"""

import gc
import weakref

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.cache import programs
from tests.helpers import flat

layers = keras.layers
X = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")


class Settings:
    """Not a layer."""

    def __init__(self):
        self.shift = 0.5


class Own(layers.Layer):
    """Reads attributes of every kind."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gain = 1.5
        self.function = keras.ops.tanh
        self.shifts = [0.25, 0.5]
        self.options = {"power": 1.0}
        self.settings = Settings()
        self.table = np.linspace(0.5, 1.0, 6).astype("float32")
        self._private = 1.0

    def call(self, x):
        y = self.function(x * self.gain * self.options["power"])
        y = y + sum(self.shifts) + self.settings.shift
        return y * self.table * self._private


def make(where):
    """Returns a model with layers of many kinds between its noise."""
    keras.utils.set_random_seed(3)

    def middle():
        return [
            layers.Dense(6, activation=lambda x: keras.ops.maximum(x, -1.0)),
            layers.BatchNormalization(name=f"norm_{where}"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Rescaling(1.5),
            Own(name="own"),
        ]

    behind = middle() if where == "behind" else []
    before = middle() if where == "before" else []
    model = keras.Sequential(
        [
            keras.Input((6,)),
            *before,
            layers.Dropout(0.5, name="drop"),
            layers.Dense(6, activation="relu", name="hidden"),
            *behind,
            layers.Dropout(0.5),
            layers.Dense(2, bias_initializer="ones"),
        ]
    )
    rng = np.random.default_rng(1)
    model.set_weights([w + 0.1 * rng.random(w.shape) for w in model.weights])
    return model


def find(model, kind):
    return next(la for la in model.layers if isinstance(la, kind))


CHANGES = {
    "rate": lambda m: setattr(find(m, layers.Dropout), "rate", 0.25),
    "negative_slope": lambda m: setattr(
        find(m, layers.LeakyReLU), "negative_slope", 0.7
    ),
    "epsilon": lambda m: setattr(
        find(m, layers.BatchNormalization), "epsilon", 0.5
    ),
    "scale": lambda m: setattr(find(m, layers.Rescaling), "scale", 0.5),
    "activation": lambda m: setattr(
        find(m, layers.Dense), "activation", keras.ops.sin
    ),
    "lambda": lambda m: setattr(
        find(m, layers.Dense), "activation", lambda x: keras.ops.maximum(x, 0.3)
    ),
    "gain": lambda m: setattr(m.get_layer("own"), "gain", 3.0),
    "int_for_float": lambda m: setattr(m.get_layer("own"), "gain", 1),
    "function": lambda m: setattr(
        m.get_layer("own"), "function", keras.ops.sigmoid
    ),
    "list": lambda m: m.get_layer("own").shifts.append(2.0),
    "dict": lambda m: m.get_layer("own").options.update({"power": 0.5}),
    "helper": lambda m: setattr(m.get_layer("own").settings, "shift", -0.5),
    "array": lambda m: m.get_layer("own").table.__setitem__(2, 7.0),
    "call": lambda m: setattr(m.get_layer("own"), "call", lambda x: x * 2.0),
}


def samples(model, x=X, **kwargs):
    settings = {"num_samples": 8, "seed": 1, "verbose": 0, **kwargs}
    p = kbd.predict_with_uncertainty(model, x, **flat(**settings))
    return np.stack([p.mean, p.variance])


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
    made = programs.made(model)
    layer.negative_slope = 0.2
    np.testing.assert_array_equal(samples(model), before)
    assert programs.made(model) == made


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


# `compile` and `clear_cache`.


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
    made = programs.made(model)
    targets = np.zeros((5, 2), "float32")
    stop = keras.callbacks.EarlyStopping("loss", patience=1)
    model.fit(X, targets, epochs=2, verbose=0, callbacks=[stop])
    model.evaluate(X, targets, verbose=0)
    model.predict(X, verbose=0)
    model.train_on_batch(X, targets)
    samples(model)
    assert programs.made(model) == made


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
    made = programs.made(model)
    for _ in range(3):
        model(X)
        np.testing.assert_array_equal(samples(model), before)
    assert programs.made(model) == made
    notes.gain = 2.0
    assert np.abs(samples(model) - before).max() > 1e-3


def test_nan_is_no_change():
    model = make(where="before")
    model.get_layer("own").unused = float("nan")
    samples(model)
    made = programs.made(model)
    model.get_layer("own").unused = float("nan") * 2
    samples(model)
    assert programs.made(model) == made


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


# Views.

VIEWS = {
    "deterministic": kbd.deterministic,
    "sample_function": lambda model: kbd.sample_function(model, seed=3),
    "stochastic": lambda model: kbd.stochastic(model, seed=3),
}


@pytest.mark.parametrize("make_view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("change", ["epsilon", "lambda", "gain", "call"])
def test_views_see_changes(make_view, change):
    model, twin = make(where="behind"), make(where="behind")
    view, fresh = make_view(model), make_view(twin)
    before = view.predict(X, verbose=0)
    fresh(X)  # as many draws
    CHANGES[change](model)
    CHANGES[change](twin)
    after = view.predict(X, verbose=0)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(after, fresh.predict(X, verbose=0))
    np.testing.assert_allclose(view(X), fresh(X))


def test_views_evaluate_and_fit_what_is_there():
    model, twin = make(where="behind"), make(where="behind")
    view, fresh = kbd.deterministic(model), kbd.deterministic(twin)
    targets = np.zeros((5, 2), "float32")
    for each in (view, fresh):
        each.compile("sgd", "mse")
    before = view.evaluate(X, targets, verbose=0)
    view.fit(X, targets, verbose=0)
    twin.set_weights(model.get_weights())
    CHANGES["gain"](model)
    CHANGES["gain"](twin)
    assert view.evaluate(X, targets, verbose=0) != before
    losses = [each.evaluate(X, targets, verbose=0) for each in (view, fresh)]
    assert losses[0] == losses[1]
    losses = [
        each.fit(X, targets, verbose=0, shuffle=False).history["loss"]
        for each in (view, fresh)
    ]
    assert losses[0] == losses[1]


def test_views_do_not_trace_without_a_change():
    view = kbd.deterministic(make(where="behind"))
    view.predict(X, verbose=0)
    function = view.predict_function
    view.predict(X, verbose=0)
    assert view.predict_function is function
