# SPDX-License-Identifier: Apache-2.0
"""Bad input: a `ValueError` in three beats, before anything is computed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop import errors
from keras_bayesdrop._core.observer import current_observer
from tests import zoo
from tests.helpers import flat

layers = keras.layers


class Counts(layers.Layer):
    """Counts how often it is called, traced or not.

    Calls under an observer do not count: they only see what a layer draws.
    """

    calls = 0

    def call(self, x):
        self.calls += current_observer() is None
        return x


@pytest.fixture
def model():
    built = keras.Sequential(
        [keras.Input((4,)), Counts(), layers.Dropout(0.5), layers.Dense(2)]
    )
    built.layers[0].calls = 0
    return built


X = zoo.numbers(4)


def refuse(kind, look, *words):
    """Asserts that `look` raises `kind`, in three beats with these words."""
    with pytest.raises(kind) as caught:
        look()
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, kbd.BayesdropError)
    text = str(caught.value)
    beats = [text.find("Expected"), text.find("Received")]
    assert 0 < beats[0] < beats[1], text
    for word in words:
        assert str(word) in text, text


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("num_samples", 0),
        ("num_samples", -3),
        ("num_samples", 1),
        ("num_samples", 2**24 + 1),
        ("num_samples", 10**30),
        ("num_samples", 2.5),
        ("num_samples", "many"),
        ("num_samples", None),
        ("num_samples", True),
        ("batch_size", 0),
        ("batch_size", -1),
        ("batch_size", 2.0),
        ("batch_size", "auto"),
        ("masks", "both"),
        ("masks", None),
        ("method", "guess"),
        ("method", None),
        ("seed", "abc"),
        ("seed", 1.5),
        ("seed", True),
        ("head", "ranking"),
        ("head", 3),
        ("engine", "fast"),
        ("engine", None),
        ("quantiles", [1.5]),
        ("quantiles", [-0.1]),
        ("quantiles", [float("nan")]),
        ("quantiles", 0.5),
        ("quantiles", []),
        ("quantiles", ["a"]),
        ("noise_precision", 0),
        ("noise_precision", -1.0),
        ("noise_precision", float("inf")),
        ("noise_precision", float("nan")),
        ("noise_precision", "high"),
        ("verbose", 3),
        ("verbose", -1),
        ("verbose", "loud"),
        ("verbose", None),
        ("verbose", []),
        ("verbose", np.zeros(2)),
        ("callbacks", 5),
        ("callbacks", "x"),
        ("callbacks", [keras.callbacks.Callback(), 5]),
        ("return_samples", "no"),
        ("return_samples", 1),
        ("return_samples", None),
        ("tolerance", 1e-200),
        ("tolerance", -1.0),
        ("absolute_tolerance", -1.0),
        ("first_row", 2**63),
        ("first_row", 2**70),
        ("steps", 0),
        ("steps", -1),
        ("steps", 1.5),
        ("layers", "nothing"),
        ("layers", []),
        ("layers", 3),
    ],
)
def test_arguments(model, argument, value, capsys):
    before = zoo.fingerprint(model)
    arguments = {"num_samples": 4, "verbose": 0, argument: value}
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, X, **flat(**arguments)),
        argument,
    )
    assert model.layers[0].calls == 0
    assert zoo.fingerprint(model) == before
    assert capsys.readouterr().out == ""


def texts_of(*looks):
    """Returns the messages of errors."""
    found = []
    for look in looks:
        with pytest.raises(errors.BayesdropError) as caught:
            look()
        found.append(str(caught.value))
    return found


def test_too_few_samples_are_told_why_in_one_way(model, tmp_path):
    def messages(number):
        return texts_of(
            lambda: kbd.predict_with_uncertainty(model, X, number, verbose=0),
            lambda: kbd.export_uncertainty(model, tmp_path / "e", number),
            lambda: kbd.callbacks.UncertaintyMonitor((X, X), number),
        )

    for number in (0, 1):
        (text,) = set(messages(number))
        assert "at least 2" in text and "undefined" in text
        assert text.endswith(f"num_samples={number}")
    assert messages(0)[0][:-1] == messages(1)[0][:-1]


def test_smallest_tolerance_is_warned_of(model):
    with pytest.warns(errors.BayesdropWarning, match=r"= 1e\+300, or"):
        p = kbd.predict_with_uncertainty(
            model, X, 20, verbose=0, method=kbd.Sampling(tolerance=1e-150)
        )
    assert np.all(p.num_samples_used == 20)


def test_one_callback_needs_no_list(model):
    class Counts(keras.callbacks.Callback):
        batches = 0

        def on_predict_batch_end(self, batch, logs=None):
            self.batches += 1

    counts = Counts()
    kbd.predict_with_uncertainty(model, X, 4, callbacks=counts, verbose=0)
    assert counts.batches == 1


DAYS = np.array([["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"]])
STRUCTURED = np.zeros(2, [("a", "f4"), ("b", "f4")])
BAD_VALUES = {
    "datetime": (DAYS.astype("M8[D]"), "datetime64", "timedelta64(1, 'D')"),
    "timedelta": (X.astype(int).astype("m8[s]"), "timedelta64"),
    "objects": (X.astype(object), "object", "np.asarray(x, 'float32')"),
    "strings": (X.astype(str), "Keras refuses", "tf.constant(x)"),
    "bytes": (X.astype("S"), "Keras refuses", "tf.constant(x)"),
    "structured": (STRUCTURED, "plain array"),
    "long": (X.astype(np.longdouble), "float128", "astype"),
    "complex": (X.astype(complex), "complex128", "imaginary part"),
    "complex_tensor": (tf.constant(X, tf.complex64), "imaginary part"),
    "list_of_lists": (X.tolist(), "several inputs", "np.asarray(x)"),
    "list": ([1.0, 2.0], "several inputs", "a list of 2"),
    "dict_of_lists": ({"a": [1, 2, 3, 4]}, "np.asarray(x)"),
    "number": (3.0, "x=3.0", "np.asarray(x)"),
    "string": ("abc", "x='abc'"),
    "nothing": ([None], "NoneType"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", BAD_VALUES)
def test_values_that_keras_does_not_take(model, name, stream):
    x, *words = BAD_VALUES[name]
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(
            model, (batch for batch in [(x,)]) if stream else x, 4, verbose=0
        ),
        *words,
    )
    assert model.layers[0].calls == 0


@pytest.mark.parametrize(
    "x",
    [
        X.astype(np.float16),
        X.astype(np.int8),
        X > 0,
        tf.constant(X, tf.bfloat16).numpy(),
    ],
    ids=["float16", "int8", "bool", "bfloat16"],
)
def test_other_numbers_are_taken(model, x):
    p = kbd.predict_with_uncertainty(model, x, 4, verbose=0)
    assert p.mean.shape == (len(X), 2)


def test_complex_numbers_for_a_model_of_them():
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="complex64"),
            layers.Lambda(tf.math.imag),
            layers.Dropout(0.5),
        ]
    )
    x = (1j * X).astype(np.complex64)
    p = kbd.predict_with_uncertainty(model, x, 4, seed=0, verbose=0)
    plain = keras.Sequential([keras.Input((4,)), layers.Dropout(0.5)])
    wanted = kbd.predict_with_uncertainty(plain, X, 4, seed=0, verbose=0)
    np.testing.assert_array_equal(p.mean, wanted.mean)


def test_strings_of_tensorflow_are_the_way_out():
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="string"),
            layers.StringLookup(vocabulary=["a", "b"]),
            layers.Embedding(4, 3),
            layers.Dropout(0.5),
        ]
    )
    x = np.array([["a"], ["b"]])
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, x, 4, verbose=0),
        "tf.constant(x)",
    )
    p = kbd.predict_with_uncertainty(model, tf.constant(x), 4, verbose=0)
    assert p.mean.shape == (2, 1, 3)


def test_values_elsewhere(model):
    """What checks `x` with the same code says the same."""
    x = X.astype(object)
    cascade = kbd.decisions.Cascade(model, model, budget=0.5, num_samples=4)
    messages = texts_of(
        lambda: kbd.predict_with_uncertainty(model, x, 4, verbose=0),
        lambda: cascade.predict(x),
        lambda: kbd.callbacks.UncertaintyMonitor((x, X)),
    )
    assert len(set(messages)) == 1


def test_arguments_elsewhere(model, tmp_path):
    refuse(
        errors.BayesdropError,
        lambda: kbd.decisions.Cascade(
            model, model, budget=1, return_samples=str(tmp_path / "s.npy")
        ),
        "return_samples",
        "one file",
    )
    refuse(
        errors.BayesdropError,
        lambda: kbd.decisions.Cascade(
            model, model, budget=1, return_samples="no"
        ),
        "return_samples='no'",
    )
    for look in (
        lambda number: kbd.decisions.ThompsonSampler(model, 0, number),
        lambda number: kbd.sample_function(model, 0, number),
    ):
        look(2**36 - 1)
        refuse(errors.BayesdropError, lambda look=look: look(2**36), str(2**36))


@pytest.mark.parametrize(
    "make",
    [
        lambda: kbd.MCDropout(1.5),
        lambda: kbd.MCDropout(-0.1),
        lambda: kbd.MCDropout("half"),
        lambda: kbd.MCSpatialDropout1D(1.5),
        lambda: kbd.MCSpatialDropout2D(-1),
        lambda: kbd.MCSpatialDropout3D(float("nan")),
        lambda: kbd.MCGaussianDropout(1.0),
        lambda: kbd.MCAlphaDropout(2),
    ],
)
def test_rates(make):
    refuse(errors.BayesdropError, make, "rate")


@pytest.mark.parametrize("rate", [1.5, -0.5, float("nan")])
def test_rates_set_later(model, rate):
    """Keras checks a rate once, and users anneal it."""
    model.layers[1].rate = rate
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, X, 4, verbose=0),
        "rate",
    )


@pytest.mark.parametrize("kind", [layers.AlphaDropout, layers.GaussianDropout])
def test_rate_of_one_where_the_noise_is_infinite(kind):
    model = keras.Sequential([keras.Input((4,)), kind(1.0, name="culprit")])
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, X, 4, verbose=0),
        "culprit",
    )


LOOKS = {
    "predict": lambda m: kbd.predict_with_uncertainty(m, X, 4, verbose=0),
    "stochastic": kbd.stochastic,
    "deterministic": kbd.deterministic,
    "sample_function": lambda m: kbd.sample_function(m, 0),
    "inspect": lambda m: kbd.inspect(m),
    "explain": lambda m: kbd.explain(m),
}
EACH_LOOK = pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)


@EACH_LOOK
@pytest.mark.parametrize(
    "thing", [None, "model", 3, layers.Dropout(0.5), keras.Model, len]
)
def test_not_a_model(look, thing):
    refuse(errors.BayesdropError, lambda: look(thing), "keras.Model")


@EACH_LOOK
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.Sequential([layers.Dense(2), layers.Dropout(0.5)]),
        zoo.Subclassed,
        keras.Sequential,
    ],
)
def test_unbuilt_model(look, make):
    refuse(errors.UnbuiltModelError, lambda: look(make()), "built")


@EACH_LOOK
def test_other_backend(look, model, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    refuse(errors.BackendError, lambda: look(model), "tensorflow", "jax")


def test_no_noise():
    plain = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(2, name="apple"),
            layers.BatchNormalization(name="pear"),
        ]
    )
    refuse(
        errors.NothingToSampleError,
        lambda: LOOKS["predict"](plain),
        "nothing to sample",
        "apple",
        "pear",
        "BatchNormalization",
    )


def test_no_noise_that_is_on():
    plain = keras.Sequential([keras.Input((4,)), layers.Dropout(0.0)])
    refuse(
        errors.NothingToSampleError,
        lambda: LOOKS["predict"](plain),
        "nothing to sample",
    )


def test_chosen_noise_is_off():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.0, name="off"),
            layers.Dropout(0.5, name="on"),
        ]
    )
    refuse(
        errors.NothingToSampleError,
        lambda: kbd.predict_with_uncertainty(model, X, layers="off", verbose=0),
        "nothing to sample",
    )


@pytest.mark.parametrize(
    "view", [kbd.deterministic, lambda m: kbd.sample_function(m, 0)]
)
def test_views_without_noise(model, view):
    refuse(
        errors.NothingToSampleError,
        lambda: LOOKS["predict"](view(model)),
        "nothing to sample",
    )


@pytest.mark.parametrize(
    "x",
    [
        zoo.numbers(3),
        zoo.numbers(4, 2),
        zoo.numbers(),
        zoo.numbers(4)[0],
        [zoo.numbers(4), zoo.numbers(4)],
        {"a": zoo.numbers(4), "b": zoo.numbers(4)},
        tf.data.Dataset.from_tensors(zoo.numbers(3)),
        tf.data.Dataset.from_tensor_slices(zoo.numbers(4)),
    ],
    ids=[
        "features",
        "rank",
        "no_features",
        "one_row",
        "list",
        "dict",
        "dataset",
        "unbatched_dataset",
    ],
)
def test_shapes(model, x):
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, x, 4, verbose=0),
        "(None, 4)",
    )
    assert model.layers[0].calls == 0


def test_shapes_for_a_subclassed_model():
    """Whoever finds out, it is a `ValueError` that names the sizes."""
    model, _ = zoo.ZOO["subclassed"].build()
    with pytest.raises(ValueError, match=r"(?s)4.*3"):
        kbd.predict_with_uncertainty(model, zoo.numbers(3), 4, verbose=0)


@pytest.mark.parametrize(
    "feed",
    [
        lambda: np.zeros((0, 4), "float32"),
        list,
        dict,
        lambda: None,
        lambda: tf.data.Dataset.from_tensor_slices(X).batch(2).take(0),
        lambda: (batch for batch in [X[:0]]),
    ],
    ids=["array", "list", "dict", "none", "dataset", "no_rows"],
)
@pytest.mark.parametrize("kind", ["functional", "subclassed"])
def test_empty(kind, feed):
    model, _ = zoo.ZOO[kind].build()
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, feed(), 4, verbose=0),
    )


def test_empty_generator(model):
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, (x for x in ()), verbose=0),
        "empty",
    )


def test_uneven():
    model, (a, b) = zoo.ZOO["two_inputs"].build()
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, [a, b[:3]], verbose=0),
        "[5, 3]",
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "feed",
    [
        lambda x: x,
        tf.constant,
        lambda x: tf.data.Dataset.from_tensor_slices(x).batch(2),
        lambda x: (x[i : i + 2] for i in range(0, len(x), 2)),
    ],
    ids=["array", "tensor", "dataset", "generator"],
)
def test_not_finite_inputs(bad, feed):
    x = X.copy()
    x[2, 1] = bad
    x[3, 0] = bad
    model, _ = zoo.ZOO["functional"].build()
    refuse(
        errors.NonFiniteError,
        lambda: kbd.predict_with_uncertainty(model, feed(x), 4, verbose=0),
        "inputs",
        "2, 3",
    )


def test_not_finite_in_the_second_input():
    model, (a, b) = zoo.ZOO["two_inputs"].build()
    b = b.copy()
    b[4] = np.nan
    refuse(
        errors.NonFiniteError,
        lambda: kbd.predict_with_uncertainty(model, [a, b], verbose=0),
        "at 4",
    )


@pytest.mark.parametrize("batch_size", [None, 1, 2])
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_not_finite_outputs(batch_size, masks):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(4, kernel_initializer="identity"),
            layers.GaussianDropout(0.01),
            layers.Lambda(keras.ops.log),
        ]
    )
    x = np.ones((5, 4), "float32")
    x[3] = -1.0
    before = zoo.fingerprint(model)
    refuse(
        errors.NonFiniteError,
        lambda: kbd.predict_with_uncertainty(
            model,
            x,
            4,
            seed=0,
            batch_size=batch_size,
            verbose=0,
            method=kbd.Sampling(masks=masks),
        ),
        "outputs",
        "at 3",
    )
    assert zoo.fingerprint(model) == before


@pytest.mark.parametrize(
    "look",
    [
        lambda m: kbd.sample_function(m, "abc"),
        lambda m: kbd.sample_function(m, 0, -1),
        lambda m: kbd.sample_function(m, 0, 1.5),
        lambda m: kbd.sample_function(m, None),
        lambda m: kbd.stochastic(m, masks="both"),
        lambda m: kbd.stochastic(m, seed="abc"),
        lambda m: kbd.stochastic(m, layers="nothing"),
        lambda m: kbd.explain(m, engine="fast"),
    ],
)
def test_arguments_of_views(model, look):
    refuse(errors.BayesdropError, lambda: look(model))
    assert model.layers[0].calls == 0


@pytest.mark.parametrize(
    "view",
    [kbd.stochastic, kbd.deterministic, lambda m: kbd.sample_function(m, 0)],
)
def test_views_of_wrong_shapes(model, view):
    with pytest.raises(ValueError, match="4"):
        view(model)(zoo.numbers(3))
    with pytest.raises(ValueError, match="4"):
        view(model).predict(zoo.numbers(3), verbose=0)
