# SPDX-License-Identifier: Apache-2.0
"""Noise of two values on few units, case by case, against all masks."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.moments import cases
from keras_bayesdrop.moments import propagate
from keras_bayesdrop.moments import variance_correction
from keras_bayesdrop.moments.case_segments import segments_of
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Bernoulli
from tests.moments.enumeration import Masked
from tests.moments.enumeration import enumerate_masks
from tests.moments.passes import moments_of

layers = keras.layers

PRECISIONS = [("float32", 1e-5), ("float64", 1e-12)]


def _segments(model, full=False):
    surveyed = survey(model)
    chosen = {site.path for site in surveyed.sites}
    return segments_of(surveyed.graph, chosen, full)


def _inputs(*shape, dtype="float32"):
    return np.random.default_rng(3).normal(size=shape).astype(dtype)


def _assert_all_masks(model, x, tolerance, full):
    """Asserts that mean, variance and covariance are those over all masks."""
    mean, covariance = enumerate_masks(model, x)
    own_mean, own_variance, own_covariance = moments_of(model, x, full)
    scale = np.abs(covariance).max()
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(own_mean, mean, atol=10 * tolerance)
    np.testing.assert_allclose(own_variance, variance, atol=tolerance * scale)
    if full:
        np.testing.assert_allclose(
            own_covariance, covariance, atol=tolerance * scale
        )


def _chain(inputs, activation, rate, dtype, hidden=4):
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((inputs,), dtype=dtype),
            Masked(rate, dtype=dtype),
            layers.Dense(hidden, activation=activation, dtype=dtype),
            Masked(0.2, dtype=dtype),
            layers.Dense(2, dtype=dtype),
        ]
    )


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "gelu"])
def test_one_hidden_layer_is_exact(activation, dtype, tolerance, full):
    """Exact without covariances too: masks fixed, units are independent."""
    model = _chain(3, activation, 0.3, dtype)
    x = _inputs(2, 3, dtype=dtype)
    _assert_all_masks(model, x, tolerance, full)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rate", [1e-6, 0.5, 0.95, 1 - 1e-6])
@pytest.mark.parametrize("inputs", [1, 6])
def test_sizes_and_rates(inputs, rate, full):
    model = _chain(inputs, "relu", rate, "float64", hidden=3)
    x = _inputs(2, inputs, dtype="float64")
    _assert_all_masks(model, x, 1e-12, full)


def _residual(dtype):
    keras.utils.set_random_seed(3)
    x = keras.Input((3,), dtype=dtype)
    dropped = Masked(0.3, dtype=dtype)(x)
    hidden = layers.Dense(3, dtype=dtype)(dropped)
    hidden = layers.BatchNormalization(dtype=dtype)(hidden)
    hidden = layers.ReLU(dtype=dtype)(hidden)
    plain = layers.Dense(3, activation="tanh", dtype=dtype)(x)
    summed = layers.Add(dtype=dtype)([hidden, dropped, plain])
    inner = keras.Sequential(
        [
            keras.Input((3,), dtype=dtype),
            layers.Dense(2, activation="softmax", dtype=dtype),
        ]
    )
    joined = layers.Concatenate(dtype=dtype)([inner(summed), hidden, dropped])
    return keras.Model(x, layers.Dense(2, dtype=dtype)(joined))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_skips_and_nested_models_are_exact(dtype, tolerance, full):
    model = _residual(dtype)
    x = _inputs(2, 3, dtype=dtype)
    _assert_all_masks(model, x, tolerance, full)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_covariances_go_on_behind_the_cases(dtype, tolerance):
    """With "full", noise ends the cases; a linear network after it is exact."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((3,), dtype=dtype),
            Masked(0.3, dtype=dtype),
            layers.Dense(3, activation="relu", dtype=dtype),
            Masked(0.2, dtype=dtype),
            layers.Dense(3, dtype=dtype),
            Masked(0.4, dtype=dtype),
            layers.Dense(2, dtype=dtype),
        ]
    )
    x = _inputs(2, 3, dtype=dtype)
    _assert_all_masks(model, x, tolerance, full=True)


@pytest.mark.parametrize("full", [False, True])
def test_two_inputs_have_cases_each(full):
    keras.utils.set_random_seed(3)
    inputs = [keras.Input((2,)), keras.Input((3,))]
    parts = [
        layers.Dense(2, activation="relu")(layers.Dropout(0.3)(x))
        for x in inputs
    ]
    model = keras.Model(inputs, layers.Add()(parts))
    x = [_inputs(2, 2), _inputs(2, 3)]
    mean, variance, _ = moments_of(model, x, full)
    alone = [
        enumerate_masks(_alone(layer), each)
        for layer, each in zip(
            [a for a in model.layers if isinstance(a, layers.Dense)],
            x,
            strict=True,
        )
    ]
    np.testing.assert_allclose(mean, sum(m for m, _ in alone), atol=1e-5)
    expected = sum(np.diagonal(c, axis1=1, axis2=2) for _, c in alone)
    np.testing.assert_allclose(variance, expected, atol=1e-5)


def _alone(dense):
    return keras.Sequential(
        [keras.Input((dense.kernel.shape[0],)), Masked(0.3), dense]
    )


def _brute_force(noise, x, draws, dense, words=(0, 2**32 - 1)):
    """Returns moments of a dense layer after noise, over all masks."""
    rate = noise.rate
    mean, square = 0.0, 0.0
    for each in itertools.product((0, 1), repeat=draws):
        chance = np.prod([rate if not k else 1 - rate for k in each])
        picked = tf.constant([words[k] for k in each], tf.uint32)
        perturbed = noise.apply(tf.constant(x), picked)
        y = np.asarray(dense(perturbed), np.float64)
        mean, square = mean + chance * y, square + chance * y**2
    return mean, square - mean**2


@pytest.mark.parametrize(
    ("build", "noise", "draws"),
    [
        (lambda: layers.AlphaDropout(0.3), Alpha(0.3), 4),
        (
            lambda: layers.Dropout(0.3, noise_shape=(None, 1)),
            Bernoulli(0.3),
            1,
        ),
        (lambda: kbd.MCDropout(0.3), Bernoulli(0.3), 4),
    ],
    ids=["alpha", "one draw", "ours"],
)
@pytest.mark.parametrize("full", [False, True])
def test_other_noise_of_two_values(build, noise, draws, full):
    keras.utils.set_random_seed(3)
    dense = layers.Dense(3, activation="relu")
    model = keras.Sequential([keras.Input((4,)), build(), dense])
    x = _inputs(2, 4)
    mean, variance, _ = moments_of(model, x, full)
    expected = _brute_force(noise, x, draws, dense)
    np.testing.assert_allclose(mean, expected[0], atol=1e-5)
    np.testing.assert_allclose(variance, expected[1], atol=1e-5)


def test_a_learned_rate_may_change():
    keras.utils.set_random_seed(3)
    dense = layers.Dense(3, activation="relu")
    dropped = kbd.layers.ConcreteDropout(dense, 100, init_rate=0.3)
    model = keras.Sequential([keras.Input((4,)), dropped])
    (logit,) = (w for w in model.weights if w.name == "logit")
    x = _inputs(2, 4)
    for rate in (0.3, 0.8):
        logit.assign(np.log(rate / (1 - rate)))
        prediction = kbd.predict_with_uncertainty(
            model, x, method="moments", verbose=0
        )
        expected = _brute_force(Bernoulli(rate), x, 4, dense)
        np.testing.assert_allclose(prediction.mean, expected[0], atol=1e-5)
        np.testing.assert_allclose(prediction.variance, expected[1], atol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.05, 0.5, 0.9, 1 - 1e-9, 1.0])
def test_shares_and_rest_against_all_masks(rate, order):
    """Checks the perturbed value, and its moments given the rest."""
    draws = 5
    noise = Bernoulli(rate)
    x = tf.constant(_inputs(1, draws, dtype="float64"))
    split = cases.split(noise, x, draws, order)
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=draws)))
    chances = np.prod(np.where(masks, 1 - rate, rate), axis=1)
    values = masks * np.asarray(x) / noise.normalizer
    mean = chances @ values
    covariance = (chances[:, None] * (values - mean)).T @ (values - mean)
    shares, points = split.shares.numpy(), split.values.numpy()[0]
    total, first = shares.sum(), shares @ points
    second = (shares[:, None] * points).T @ points
    assert split.count == cases.count(draws, order) == len(points)
    if split.rest is None:
        assert order == draws
    else:
        seldom = (masks if rate > 0.5 else 1 - masks).sum(axis=1)
        rest = np.where(seldom > order, chances, 0.0)
        share = split.rest.share.numpy()
        np.testing.assert_allclose(share, rest.sum(), rtol=1e-6, atol=1e-30)
        m = split.rest.moments.mean.numpy()[0]
        spread = split.rest.covariance().numpy()[0]
        total, first = total + share, first + share * m
        second = second + share * (spread + np.outer(m, m))
        np.testing.assert_array_equal(
            split.rest.moments.variance[0], np.diagonal(spread)
        )
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    np.testing.assert_allclose(first, mean, atol=1e-12)
    np.testing.assert_allclose(
        second - np.outer(first, first), covariance, atol=1e-12
    )


@pytest.mark.parametrize(("full", "error"), [(False, 0.15), (True, 0.06)])
def test_seldom_dropped_inputs(full, error, monkeypatch):
    """Ten inputs of rate 0.05: compared with all masks, with and without cases.

    The correction of variances is off, because it reduces the error as well.
    """
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((11,)),
            Masked(0.05),
            layers.Dense(20, activation="relu"),
            layers.Dense(3),
        ]
    )
    x = 2 * _inputs(6, 11)
    _, covariance = enumerate_masks(model, x)
    std = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))

    def miss():
        _, variance, _ = moments_of(model, x, full)
        return np.linalg.norm(np.sqrt(variance) - std) / np.linalg.norm(std)

    with_cases = miss()
    assert with_cases < error
    monkeypatch.setattr(propagate, "segments_of", lambda *_: {})
    monkeypatch.setattr(variance_correction, "CHEAP_MULTIPLY_ADDS", 0)
    assert miss() > 2 * with_cases


def test_logits_are_resolved_with_covariances():
    keras.utils.set_random_seed(3)
    probabilities = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.1),
            layers.Dense(8, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(3, activation="softmax"),
        ]
    )
    logits = keras.models.clone_model(probabilities)
    logits.layers[-1].activation = keras.activations.linear
    logits.set_weights(probabilities.get_weights())
    x = _inputs(5, 4)
    prediction, expected = (
        kbd.predict_with_uncertainty(
            model,
            x,
            verbose=0,
            method=kbd.Moments(covariance="full"),
            head=kbd.Classification(from_logits=model is logits),
        )
        for model in (logits, probabilities)
    )
    np.testing.assert_allclose(prediction.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(prediction.std, expected.std, atol=1e-6)
