# SPDX-License-Identifier: Apache-2.0
"""Draws remade from counters have the distribution that Keras gives them."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.graph.sites import handmade

WORDS = np.linspace(0, 2**32 - 1, 20_001).astype("uint32")


def draw(function, words=WORDS, **arguments):
    """Returns what a call makes of words, one number each."""
    full = {"shape": [len(words)], "dtype": "float64", **arguments}
    return np.asarray(handmade.from_words(function, full, tf.constant(words)))


@pytest.mark.parametrize(
    "function, arguments, law",
    [
        (
            "uniform",
            {"minval": -1.0, "maxval": 3.0},
            scipy.stats.uniform(-1, 4),
        ),
        ("normal", {"mean": 2.0, "stddev": 0.5}, scipy.stats.norm(2, 0.5)),
        (
            "truncated_normal",
            {"mean": 1.0, "stddev": 2.0},
            scipy.stats.truncnorm(-2, 2, 1, 2),
        ),
    ],
)
def test_continuous_laws(function, arguments, law):
    numbers = draw(function, **arguments)
    # One word per quantile: the distribution function is off by no more than
    # one step of the grid.
    steps = np.abs(law.cdf(numbers) - np.linspace(0, 1, len(WORDS)))
    assert steps.max() < 1 / 20_000
    assert np.all(np.isfinite(numbers))


def test_the_same_laws_as_keras():
    """Against draws of Keras: Kolmogorov-Smirnov at the 0.1 % level."""
    for function, arguments in (
        ("uniform", {"minval": -1.0, "maxval": 3.0}),
        ("normal", {"mean": 2.0, "stddev": 0.5}),
        ("truncated_normal", {"mean": 1.0, "stddev": 2.0}),
    ):
        plain = getattr(keras.random, function)((5000,), **arguments, seed=1)
        ours = draw(function, **arguments)
        assert scipy.stats.ks_2samp(plain, ours).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_uniform_numbers_stay_below_one(dtype):
    last = np.array([2**32 - 1, 2**32 - 2, 0], "uint32")
    numbers = draw("uniform", last, minval=0.0, maxval=1.0, dtype=dtype)
    assert np.all(numbers.astype("float64") < 1)
    assert np.all(numbers.astype("float64") >= 0)


def test_integers_are_even():
    numbers = draw("randint", minval=-2, maxval=5, dtype="int32")
    values, counts = np.unique(numbers, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(-2, 5))
    assert np.ptp(counts) <= 1


def test_categories_have_their_probabilities():
    logits = np.log([[0.1, 0.2, 0.0 + 1e-30, 0.7]]).astype("float32")
    words = tf.constant(WORDS[np.newaxis])
    arguments = {"logits": logits, "num_samples": len(WORDS), "dtype": "int64"}
    numbers = np.asarray(handmade.from_words("categorical", arguments, words))
    shares = np.bincount(numbers[0], minlength=4) / len(WORDS)
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.0, 0.7], atol=1e-4)
    assert numbers.dtype == "int64"


@pytest.mark.parametrize("rate", [0.25, tf.constant(0.25), np.float32(0.25)])
def test_dropout_of_a_number_or_a_tensor(rate):
    x = tf.ones([len(WORDS)])
    dropped = np.asarray(
        handmade.from_words(
            "dropout",
            {"inputs": x, "rate": rate, "noise_shape": None},
            tf.constant(WORDS),
        )
    )
    np.testing.assert_allclose(np.unique(dropped), [0, 4 / 3], rtol=1e-6)
    assert np.mean(dropped == 0) == pytest.approx(0.25, abs=1e-4)


@pytest.mark.parametrize(
    "function, arguments, mean",
    [
        ("uniform", {"minval": 1.0, "maxval": 2.0}, 1.5),
        ("normal", {"mean": 2.0, "stddev": 0.5}, 2.0),
        ("randint", {"minval": 1, "maxval": 5, "dtype": "int32"}, 1),
        ("gamma", {"alpha": 3.0}, 3.0),
        ("beta", {"alpha": 1.0, "beta": 3.0}, 0.25),
        ("binomial", {"counts": 4.0, "probabilities": 0.5}, 2.0),
    ],
)
def test_noise_that_is_off_is_its_mean(function, arguments, mean):
    full = {"shape": [2, 3], "dtype": "float32", **arguments}
    off = handmade.without_noise(function, full)
    np.testing.assert_array_equal(off, np.full((2, 3), mean))
