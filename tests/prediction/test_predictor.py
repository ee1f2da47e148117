# SPDX-License-Identifier: Apache-2.0
"""Inputs and errors of a predictor."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.cache import programs
from tests.prediction.predictors import Ways
from tests.prediction.predictors import assert_equal
from tests.prediction.predictors import whole_call
from tests.prediction.test_predictor_equality import X
from tests.prediction.test_predictor_equality import dense

layers = keras.layers


@pytest.fixture
def ways(monkeypatch):
    return Ways(monkeypatch)


def two_inputs():
    keras.utils.set_random_seed(0)
    one, two = keras.Input((4,), name="one"), keras.Input((4,), name="two")
    joined = layers.Concatenate()([one, two])
    noisy = layers.Dropout(0.5)(layers.Dense(8, activation="relu")(joined))
    outputs = {
        "value": layers.Dense(1)(noisy),
        "label": layers.Dense(3, activation="softmax")(noisy),
    }
    return keras.Model([one, two], outputs)


def tokens_model():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(10, 4, mask_zero=True),
            layers.GlobalAveragePooling1D(),
            layers.Dropout(0.5),
            layers.Dense(2),
        ]
    )


TOKENS = np.random.default_rng(0).integers(1, 10, (3, 5), "int32")
# Model and inputs; all of these have a short way.
INPUTS = {
    "float32": (dense, X),
    "float64": (dense, X.astype("float64")),
    "float16": (dense, X.astype("float16")),
    "integers": (dense, np.arange(8).reshape(2, 4)),
    "not contiguous": (dense, np.repeat(X, 2, axis=0)[::2]),
    "other byte order": (dense, X.astype(">f4")),
    "tensor": (dense, tf.constant(X)),
    "float64 tensor": (dense, tf.constant(X, tf.float64)),
    "tokens": (tokens_model, TOKENS),
    "list": (two_inputs, [X, X + 1]),
    "tuple": (two_inputs, (X, X + 1)),
    "dict": (two_inputs, {"two": X + 1, "one": X}),
    "mixed": (two_inputs, [tf.constant(X), X.astype("float64")]),
}


def made(maker):
    return maker(0) if maker is dense else maker()


@pytest.mark.parametrize("kind", INPUTS)
def test_arrays_and_tensors_take_the_short_way(kind, ways):
    maker, x = INPUTS[kind]
    model = made(maker)
    predictor = kbd.Predictor(model, 20, seed=1)
    expected = whole_call(model, x, 20, seed=1)
    ways.long = 0
    for _ in range(3):
        assert_equal(predictor(x), expected)
    assert (ways.long, ways.short) == (1, 2)


def frame(x):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(x)


STREAMS = {
    "dataset": lambda: tf.data.Dataset.from_tensor_slices(X).batch(4),
    "generator": lambda: (batch for batch in (X[:4], X[4:])),
    "frame": lambda: frame(X),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_other_inputs_take_the_long_way(stream, ways):
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1)
    expected = whole_call(model, stream(), 20, seed=1)
    for _ in range(2):
        assert_equal(predictor(stream()), expected)
    assert ways.short == 0


def test_what_the_caller_watches_takes_the_long_way(ways, capsys):
    class Count(keras.callbacks.Callback):
        batches = 0

        def on_predict_batch_end(self, batch, logs=None):
            self.batches += 1

    model, count = dense(0), Count()
    predictor = kbd.Predictor(model, 20, seed=1)
    expected = predictor(X)
    predictor(X)
    assert (ways.long, ways.short) == (1, 1)
    assert_equal(predictor(X, callbacks=[count]), expected)
    assert count.batches == 1
    capsys.readouterr()
    assert_equal(predictor(X, verbose=2), expected)
    assert capsys.readouterr().out
    assert_equal(predictor(X, steps=1), expected)
    assert (ways.long, ways.short) == (4, 1)


def test_shapes_are_told_apart(ways):
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1)
    for _ in range(2):
        for rows in (1, 3, 6):
            x = X[:rows]
            assert_equal(predictor(x), whole_call(model, x, 20, seed=1))
    assert ways.short == 3


def test_floatx_counts():
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1)
    x = np.full((1, 4), 1 / 3)
    predictor(x)
    before = predictor(x)
    keras.config.set_floatx("float16")
    try:
        expected = whole_call(model, x, 20, seed=1)
        assert_equal(predictor(x), expected)
    finally:
        keras.config.set_floatx("float32")
    assert np.abs(before.mean - expected.mean).max() > 0


def test_rows_of_which_nothing_is_known_take_the_long_way(ways):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="int32"),
            layers.Embedding(10, 4),
            layers.Dropout(0.5),
        ]
    )
    predictor = kbd.Predictor(model, 20, seed=1)
    one, several = np.array([[3]], "int32"), np.array([[3], [5]], "int32")
    expected = whole_call(model, one, 20, seed=1)
    # No other row can be made of one token, to see whether it matters.
    for _ in range(3):
        assert_equal(predictor(one), expected)
    assert ways.short == 0
    predictor(several)  # Now it is known.
    for _ in range(2):
        assert_equal(predictor(one), expected)
    assert ways.short == 1


def test_a_call_may_have_a_seed_and_a_first_row_of_its_own(ways):
    model = dense(0)
    method = kbd.Sampling(masks="independent")
    predictor = kbd.Predictor(model, 20, seed=1, method=method)
    predictor(X)
    traces = programs.made(model)
    for seed, row in ((None, None), (7, None), (None, 9), (-3, 2**20)):
        p = predictor(X, seed=seed, first_row=row)
        chosen = {"seed": 1 if seed is None else seed, "first_row": row or 0}
        options = {"method": method, **chosen}
        assert_equal(p, whole_call(model, X, 20, **options))
    assert ways.short == 4
    assert programs.made(model) == traces


def test_without_a_seed_each_call_draws_one():
    model = dense(0)
    predictor = kbd.Predictor(model, 20)
    predictor(X)
    keras.utils.set_random_seed(4)
    expected = [whole_call(model, X, 20) for _ in range(2)]
    keras.utils.set_random_seed(4)
    actual = [predictor(X) for _ in range(2)]
    for one, other in zip(actual, expected, strict=True):
        assert_equal(one, other)
    assert actual[0].stats.seed != actual[1].stats.seed


def test_a_file_of_samples_is_written_by_each_call(tmp_path, ways):
    model, path = dense(0), tmp_path / "samples.npy"
    predictor = kbd.Predictor(model, 20, seed=1, return_samples=path)
    for seed in (1, 2, 1):
        p = predictor(X, seed=seed)
        kept = whole_call(model, X, 20, seed=seed, return_samples=True)
        np.testing.assert_array_equal(np.load(path), kept.samples)
        np.testing.assert_array_equal(p.samples, kept.samples)
    assert ways.short == 0


def test_bad_numbers_are_refused_on_the_short_way(ways):
    predictor = kbd.Predictor(dense(0), 20, seed=1)
    expected = predictor(X)
    bad = X.copy()
    bad[2, 1] = np.nan
    with pytest.raises(kbd.errors.NonFiniteError, match=r"inputs.*, at 2"):
        predictor(bad)
    huge = np.full_like(X, 3e38)
    with pytest.raises(kbd.errors.NonFiniteError, match="Expected finite"):
        predictor(huge)
    assert ways.long == 1
    assert_equal(predictor(X), expected)


def test_values_are_held_against_the_head_on_the_short_way(ways):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.5),
            layers.Lambda(lambda x: keras.ops.abs(x)),
        ]
    )
    model.compile(loss="binary_crossentropy")
    predictor = kbd.Predictor(model, 20, seed=1)
    predictor(np.full((2, 4), 0.2, "float32"))
    with pytest.raises(kbd.BayesdropError, match="not the probabilities"):
        predictor(np.full((2, 4), 5.0, "float32"))
    assert (ways.long, ways.short) == (1, 1)


def test_samples_that_never_differ_are_a_warning_on_the_short_way(ways):
    predictor = kbd.Predictor(dense(0), 20, seed=1)
    predictor(X)
    predictor.model.layers[2].kernel.assign(np.zeros((16, 2)))
    with pytest.warns(kbd.BayesdropWarning, match="does not vary"):
        p = predictor(X)
    assert ways.short == 1
    assert not p.variance.any()


def test_what_is_true_of_the_model_is_said_once():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            kbd.layers.Masksembles(4, 2.0),
            layers.Dense(2),
        ]
    )
    predictor = kbd.Predictor(model, 8, seed=1)
    with pytest.warns(kbd.BayesdropWarning, match="repeat those before"):
        predictor(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor(X)


BAD = {
    "num_samples": {"num_samples": 1},
    "batch_size": {"batch_size": 0},
    "seed": {"seed": "one"},
    "method": {"method": "guess"},
    "head": {"head": "classes"},
    "layers": {"layers": "no such layer"},
    "quantiles": {"quantiles": [2.0]},
    "return_samples": {"return_samples": 3},
    "first_row": {"first_row": -1},
    "moments": {"method": "moments", "return_samples": True},
    "gone": {"masks": "shared"},
}


@pytest.mark.parametrize("options", BAD.values(), ids=BAD)
def test_bad_arguments_are_refused_when_it_is_made(options):
    model = dense(0)
    with pytest.raises(kbd.BayesdropError, match="Expected") as whole:
        whole_call(model, X, **options)
    with pytest.raises(kbd.BayesdropError, match=r"\. Received: ") as error:
        kbd.Predictor(model, **options)
    assert str(error.value) == str(whole.value)


BAD_CALLS = {
    "seed": {"seed": 0.5},
    "first_row": {"first_row": -1},
    "verbose": {"verbose": "loud"},
    "steps": {"steps": 0},
    "callbacks": {"callbacks": ["none"]},
}


@pytest.mark.parametrize("options", BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_calls_are_refused(options):
    predictor = kbd.Predictor(dense(0), 20, seed=1)
    for _ in range(2):  # On both ways.
        with pytest.raises(kbd.BayesdropError, match=r"Expected .*Received: "):
            predictor(X, **options)
        expected = predictor(X)
    assert_equal(expected, whole_call(predictor.model, X, 20, seed=1))


@pytest.mark.parametrize(
    "x", [None, [], 3.0, X[:0], X[:, :3], X.astype("O"), ["a"]], ids=repr
)
def test_bad_inputs_are_refused(x):
    predictor = kbd.Predictor(dense(0), 20, seed=1)
    for _ in range(2):
        with pytest.raises(kbd.BayesdropError, match=r"Expected .*Received: "):
            predictor(x)
        predictor(X)


def test_models_without_noise_are_refused_when_it_is_made():
    with pytest.raises(kbd.errors.NothingToSampleError):
        kbd.Predictor(dense(0, rate=0.0))
    with pytest.raises(kbd.BayesdropError, match="model"):
        kbd.Predictor("model")
    with pytest.raises(kbd.BayesdropError, match="at least one"):
        kbd.Predictor([])


def test_it_shows_itself():
    text = repr(kbd.Predictor(dense(0), 20, seed=1))
    assert "num_samples=20" in text
    assert "seed=1" in text
