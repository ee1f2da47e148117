# SPDX-License-Identifier: Apache-2.0
"""Thompson sampling."""

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.decisions import ThompsonSampler
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.errors import UnbuiltModelError
from keras_bayesdrop.graph.cache import programs
from tests.decisions import cases


@pytest.fixture
def x():
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 4)).astype("float32")


def test_episodes_are_the_samples_of_a_prediction(x):
    model = cases.network(2, None)
    sampler = ThompsonSampler(model, seed=7)
    drawn = np.stack([sampler.sample()(x) for _ in range(20)])
    p = kbd.predict_with_uncertainty(
        model, x, 20, seed=7, return_samples=True, verbose=0
    )
    np.testing.assert_allclose(drawn, p.samples, rtol=1e-5, atol=1e-6)
    assert np.std(drawn[:, 0, 0]) > 0
    assert sampler.episode == 20


def test_a_function_stays_as_it_is(x):
    model = cases.network(2, None)
    sampler = ThompsonSampler(model, seed=1)
    first = sampler.sample()
    before = first(x)
    second = next(sampler)
    assert np.any(second(x) != before)
    np.testing.assert_array_equal(first(x), before)
    # Rows do not depend on those beside them, nor on the size of batches.
    np.testing.assert_allclose(first(x[2:3])[0], before[2], rtol=1e-5)
    np.testing.assert_allclose(first(x, batch_size=2), before, rtol=1e-5)
    view = first.to_model()
    np.testing.assert_array_equal(view(x), before)
    assert isinstance(view, keras.Model)


def test_nothing_is_traced_for_a_new_episode(x):
    model = cases.network(2, None)
    sampler = ThompsonSampler(model, seed=1)
    sampler.sample()(x)
    traces = programs.made(model)
    assert traces
    for rows in (1, 3, 5):
        sampler.sample()(x[:rows])
    assert programs.made(model) == traces


def test_training_in_between_counts(x):
    model = cases.network(2, None)
    function = ThompsonSampler(model, seed=1).sample()
    before = function(x)
    model.layers[-1].bias.assign([5.0, 7.0])
    np.testing.assert_allclose(
        function(x), before + np.array([5, 7]), rtol=1e-5
    )


def test_state(x):
    model = cases.network(2, None)
    sampler = ThompsonSampler(model, seed=-3)
    for _ in range(3):
        sampler.sample()
    elsewhere = ThompsonSampler(
        model, seed=sampler.seed, episode=sampler.episode
    )
    copy = pickle.loads(pickle.dumps(sampler))
    assert (copy.seed, copy.episode) == (-3, 3)
    expected = sampler.sample()(x)
    np.testing.assert_array_equal(elsewhere.sample()(x), expected)
    np.testing.assert_allclose(copy.sample()(x), expected, rtol=1e-6)
    function = pickle.loads(pickle.dumps(sampler.sample()))
    assert (function.seed, function.sample) == (-3, 4)
    assert "seed=-3, episode=5" in repr(sampler)
    assert "seed=-3, sample=4" in repr(function)
    keras.utils.set_random_seed(4)
    drawn = ThompsonSampler(model).seed
    keras.utils.set_random_seed(4)
    assert ThompsonSampler(model).seed == drawn
    assert ThompsonSampler(model).seed != drawn


def test_is_an_endless_iterator(x):
    sampler = ThompsonSampler(cases.network(2, None), seed=0)
    for function, _ in zip(sampler, range(3), strict=False):
        assert function(x).shape == (5, 2)


def test_several_inputs_outputs_and_chosen_layers():
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    left = kbd.MCDropout(0.5, name="left")(a)
    right = kbd.MCDropout(0.5, name="right")(b)
    model = keras.Model({"a": a, "b": b}, [left, right])
    sampler = ThompsonSampler(
        kbd.stochastic(model), seed=0, layers="left", episode=2
    )
    ones = np.ones((3, 2), "float32")
    noisy, quiet = zip(
        *(sampler.sample()({"a": ones, "b": ones}) for _ in range(8)),
        strict=True,
    )
    np.testing.assert_array_equal(np.unique(noisy), [0.0, 2.0])
    np.testing.assert_array_equal(np.stack(quiet), np.ones((8, 3, 2)))


def test_thompson_picks_as_often_as_an_arm_is_best(x):
    model = cases.network(3, None)
    sampler = ThompsonSampler(model, seed=11)
    picks = np.array([sampler.sample()(x).argmax(axis=1) for _ in range(200)])
    p = kbd.predict_with_uncertainty(
        model, x, 4000, seed=5, return_samples=True, verbose=0
    )
    best = p.samples.argmax(axis=2)
    for arm in range(3):
        share = (best == arm).mean(axis=0)
        # 4.5 standard errors of a share among 200; 15 comparisons.
        error = np.sqrt(share * (1 - share) / 200 + 1e-4)
        assert np.all(np.abs((picks == arm).mean(axis=0) - share) < 4.5 * error)


def test_bad_input(x):
    model = cases.network(2, None)
    for arguments, match in (
        ({"seed": 0.5}, "seed=0.5"),
        ({"episode": -1}, "at least 0.*episode=-1"),
    ):
        with pytest.raises(BayesdropError, match=match):
            ThompsonSampler(model, **arguments)
    with pytest.raises(BayesdropError, match=r"keras.Model.*int"):
        ThompsonSampler(3)
    with pytest.raises(UnbuiltModelError):
        ThompsonSampler(keras.Sequential([keras.layers.Dropout(0.5)]))
    with pytest.raises(NothingToSampleError, match=r"no active noise.*dense"):
        ThompsonSampler(cases.network(2, None, rate=0.0))
    function = ThompsonSampler(model, seed=0).sample()
    with pytest.raises(BayesdropError, match=r"\(None, 4\).*\(5, 3\)"):
        function(x[:, :3])
    with pytest.raises(BayesdropError, match="batch_size=0"):
        function(x, batch_size=0)
    with pytest.raises(BayesdropError, match="does not take a stream"):
        function(tf.data.Dataset.from_tensor_slices(x).batch(2))


def test_method_and_head():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(4),
        ]
    )
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    reference = ThompsonSampler(
        model, seed=1, method=kbd.Sampling(engine="reference")
    ).sample()
    logits = reference(x)
    np.testing.assert_array_equal(
        logits, kbd.sample_function(model, 1).predict(x, verbose=0)
    )
    np.testing.assert_allclose(
        ThompsonSampler(model, seed=1).sample()(x), logits, rtol=1e-5, atol=1e-6
    )
    head = kbd.Classification(from_logits=True)
    chances = ThompsonSampler(model, seed=1, head=head).sample()(x)
    np.testing.assert_allclose(
        chances, keras.ops.softmax(logits), rtol=1e-5, atol=1e-6
    )
    for method in (kbd.Sampling(masks="independent"), "moments"):
        with pytest.raises(kbd.BayesdropError, match=r"Expected.*Received"):
            ThompsonSampler(model, method=method)
    with pytest.raises(kbd.BayesdropError, match="`head`"):
        ThompsonSampler(model, head="ranking")


def test_functions_of_learned_noise_return_means(x):
    model = cases.network(4, None)
    sampler = ThompsonSampler(model, seed=3, head="heteroscedastic")
    p = kbd.predict_with_uncertainty(
        model,
        x,
        2,
        seed=3,
        head="heteroscedastic",
        return_samples=True,
        verbose=0,
    )
    for sample in p.samples:
        values = sampler.sample()(x)
        assert values.shape == (5, 2)
        np.testing.assert_allclose(values, sample, rtol=1e-5, atol=1e-6)
    # Without a head the outputs are those of the model, log variances too.
    assert ThompsonSampler(model, seed=3).sample()(x).shape == (5, 4)
