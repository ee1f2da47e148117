# SPDX-License-Identifier: Apache-2.0
"""Cascades of a fast and a slow model."""

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.decisions import Cascade
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NothingToSampleError
from tests.decisions import cases

ROWS = 12


@pytest.fixture
def x():
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 4)).astype("float32")


def recording(answer):
    """Returns a callable, and the list of its inputs."""
    asked = []

    def model(x):
        asked.append(x)
        return answer(x)

    return model, asked


def test_keras_models(x):
    fast, slow = cases.network(), cases.network()
    cascade = Cascade(fast, slow, budget=0.25, num_samples=6, seed=3)
    result = cascade.predict(x)
    p = kbd.predict_with_uncertainty(fast, x, 6, seed=3, verbose=0)
    unsure = np.argsort(p.mean.max(axis=1), kind="stable")[:3]
    np.testing.assert_array_equal(result.asked, unsure)
    other = kbd.predict_with_uncertainty(slow, x, 6, seed=3, verbose=0)
    # A matmul of 3 rows may round otherwise than one of 12.
    for name in ("mean", "std"):
        expected = np.array(getattr(p, name))
        expected[unsure] = getattr(other, name)[unsure]
        merged = getattr(result, name)
        np.testing.assert_allclose(merged, expected, rtol=1e-5, atol=1e-6)
        kept = result.deferral.kept
        np.testing.assert_array_equal(merged[kept], expected[kept])
    assert result.saving == 0.75
    assert len(result.fast) == ROWS
    assert len(result.slow) == 3
    assert result.fast_seconds > 0
    assert result.slow_seconds > 0
    assert "asked=3 of 12, saving=75.0%" in repr(result)


def test_the_slow_model_sees_the_unsure_rows_alone(x):
    fast = lambda x: x[:, :2]  # noqa: E731
    slow, asked = recording(lambda x: x[:, 2:])
    by = lambda y: y[:, 0]  # noqa: E731
    result = Cascade(fast, slow, threshold=0.5, by=by).predict(x)
    unsure = x[:, 0] > 0.5
    assert 0 < unsure.sum() < ROWS
    np.testing.assert_array_equal(
        result.mean, np.where(unsure[:, None], x[:, 2:], x[:, :2])
    )
    assert result.std is None
    (seen,) = asked
    np.testing.assert_array_equal(seen, x[result.asked])
    assert set(result.asked) == set(np.flatnonzero(unsure))


@pytest.mark.parametrize("limit", [{"budget": 0}, {"threshold": 1e9}])
def test_nobody_is_asked_if_all_is_sure(x, limit):
    slow, asked = recording(lambda x: x)
    result = Cascade(lambda x: x, slow, by=lambda y: y[:, 0], **limit).predict(
        x
    )
    assert asked == []
    assert result.slow is None
    assert result.slow_seconds == 0
    assert result.saving == 1
    np.testing.assert_array_equal(result.mean, x)


def test_the_answers_are_copies(x):
    fast = lambda x: x  # noqa: E731
    result = Cascade(fast, fast, budget=0, by=lambda y: y[:, 0]).predict(x)
    assert not np.shares_memory(result.mean, x)


def test_a_slow_model_without_noise(x):
    fast, slow = cases.network(), cases.network()
    quiet = kbd.deterministic(slow)
    result = Cascade(fast, quiet, budget=4, num_samples=4, seed=0).predict(x)
    expected = quiet.predict(x, verbose=0)[result.asked]
    np.testing.assert_allclose(
        result.mean[result.asked], expected, rtol=1e-5, atol=1e-6
    )
    assert result.std is None


def test_dicts_of_inputs_and_of_outputs():
    a, b = keras.Input((2,), name="a"), keras.Input((3,), name="b")
    hidden = keras.layers.Concatenate()([a, b])
    hidden = kbd.MCDropout(0.5)(hidden)
    model = keras.Model(
        {"a": a, "b": b},
        {
            "size": keras.layers.Dense(1)(hidden),
            "kind": keras.layers.Dense(3, activation="softmax")(hidden),
        },
    )
    rng = np.random.default_rng(0)
    x = {"a": rng.normal(size=(8, 2)), "b": rng.normal(size=(8, 3))}
    slow, asked = recording(
        lambda x: {
            "size": np.full((len(x["a"]), 1), 7.0),
            "kind": np.full((len(x["a"]), 3), 1 / 3),
        }
    )
    cascade = Cascade(
        model,
        slow,
        budget=2,
        by=lambda out: out["kind"].predictive_entropy,
        num_samples=4,
        head={"size": "regression", "kind": "classification"},
        seed=0,
    )
    result = cascade.predict(x)
    assert set(result.mean) == {"size", "kind"}
    changed = result.mean["size"][:, 0] == 7.0
    assert set(np.flatnonzero(changed)) == set(result.asked)
    entropy = result.fast["kind"].predictive_entropy
    assert set(result.asked) == set(np.argsort(-entropy)[:2])
    np.testing.assert_array_equal(asked[0]["b"], x["b"][result.asked])


def test_pickles(x):
    cascade = Cascade(
        cases.network(), cases.network(), budget=2, num_samples=3, seed=0
    )
    expected = cascade.predict(x)
    result = pickle.loads(pickle.dumps(cascade)).predict(x)
    np.testing.assert_array_equal(result.mean, expected.mean)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.asked, expected.asked)


def scores(y):
    return np.arange(len(y), dtype=float)


@pytest.mark.parametrize(
    ("fast", "slow", "match"),
    [
        (lambda x: x, lambda x: x[:, :1], r"shape.*\[rows, 4\].*\[rows, 1\]"),
        (lambda x: x, lambda x: x[:1], "slow.*rows.*Expected 3.*Received: 1"),
        (lambda x: x[:1], lambda x: x, "fast.*rows.*Expected 12.*Received: 1"),
        (lambda x: x, lambda x: [x, x], r"structure.*\(12, 4\).*\(3, 4\)"),
        (lambda x: x, lambda x: 3.0, r"slow.*`Predictive` or.*shape \(\)"),
        (lambda x: x, lambda x: ["a"] * 3, "slow.*numbers.*<U1"),
    ],
)
def test_outputs_that_do_not_fit(x, fast, slow, match):
    with pytest.raises(BayesdropError, match=match):
        Cascade(fast, slow, budget=3, by=scores).predict(x)


def test_tasks_that_do_not_fit(x):
    def answer(task, low, high):
        def model(x):
            rng = np.random.default_rng(0)
            return cases.predictive(
                task, rng.uniform(low, high, (4, len(x), 2))
            )

        return model

    probabilities = answer("classification", 0, 1)
    numbers = answer("regression", 3, 9)
    with pytest.raises(BayesdropError, match="'classification' from the fast"):
        Cascade(probabilities, numbers, budget=3).predict(x)
    logits = lambda x: x[:, :2]  # noqa: E731
    with pytest.raises(BayesdropError, match=r"\[0, 1\].*softmax.*values from"):
        Cascade(probabilities, logits, budget=3).predict(x)


def test_bad_arguments(x):
    def model(x):
        return x

    for arguments, match in (
        ({}, "either `budget` or `threshold`"),
        ({"budget": 2.0}, "budget=2.0"),
        ({"budget": 1, "by": "doubt"}, "by='doubt'"),
        ({"budget": 1, "num_samples": 9}, "not used.*'num_samples'"),
    ):
        with pytest.raises(BayesdropError, match=match):
            Cascade(model, model, **arguments)
    with pytest.raises(BayesdropError, match=r"`slow`.*callable.*slow=3"):
        Cascade(model, 3, budget=1)
    with pytest.raises(
        BayesdropError, match=r"has no uncertainty.*ndarray, by='auto'"
    ):
        Cascade(model, model, budget=1).predict(x)
    with pytest.raises(BayesdropError, match=r"`by`.*\(12,\).*\(12, 4\)"):
        Cascade(model, model, budget=1, by=model).predict(x)
    with pytest.raises(BayesdropError, match=r"stream.*Received"):
        Cascade(model, model, budget=1).predict(
            tf.data.Dataset.from_tensor_slices(x).batch(3)
        )
    with pytest.raises(NothingToSampleError):
        quiet = kbd.deterministic(cases.network())
        Cascade(quiet, quiet, budget=1).predict(x)
