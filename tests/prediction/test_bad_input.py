# SPDX-License-Identifier: Apache-2.0
"""Bad data: a `ValueError` in three beats, before any computation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop import errors
from tests import zoo
from tests.prediction.refusals import X
from tests.prediction.refusals import counting_model
from tests.prediction.refusals import refuse
from tests.prediction.refusals import texts_of

layers = keras.layers


@pytest.fixture
def model():
    return counting_model()


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
    """Other functions check `x` with the same code and the same words."""
    x = X.astype(object)
    cascade = kbd.decisions.Cascade(model, model, budget=0.5, num_samples=4)
    messages = texts_of(
        lambda: kbd.predict_with_uncertainty(model, x, 4, verbose=0),
        lambda: cascade.predict(x),
        lambda: kbd.callbacks.UncertaintyMonitor((x, X)),
    )
    assert len(set(messages)) == 1


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
