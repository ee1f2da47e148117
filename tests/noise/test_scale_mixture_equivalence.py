# SPDX-License-Identifier: Apache-2.0
"""Noise on units is a prior on weights: equations 5 to 8 of the paper.

    expanded      h = f(h * xi W),    W ~ N(0, sigma0^2)
    hierarchical  h = f(h W),    W[r, j] ~ N(0, sigma0^2 * xi[r]^2)

Both make the same distribution of outputs. A network with one hidden layer is
drawn many times in either form, with different random numbers.

- [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
"""

import itertools

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop import noise
from tests.noise.cases import CONTINUOUS
from tests.random.test_rng import philox_words

NETWORKS = 10_000
SIZES = (4, 6, 2)
SIGMA = 0.9
X = np.array([0.8, -1.5, 0.3, 2.0])
FAMILIES = {
    "bernoulli": noise.Bernoulli(0.3),
    **{name: family for name, family, _ in CONTINUOUS},
}

# Two samples of 10,000, 3 statistics, 9 families in one test and 5 in another,
# each at level 1e-4: of all seeds one in 240 would fail. CDFs that differ by
# 0.032 are detected: sqrt(log(2 / 1e-4) / 2 * 2 / 10,000).
LEVEL = 1e-4


def _scales(family, seed, layer, shape):
    """Draws `xi / c` from counters, an own stream for every layer."""
    size = int(np.prod(shape)) // NETWORKS
    words = philox_words(seed, layer, range(1), range(NETWORKS), size)
    words = tf.constant(words.reshape(shape))
    return family.from_words(words).numpy() / _normalizer(family)


def _normalizer(family):
    centered = isinstance(family, noise.CenteredGaussian)
    return 1.0 if centered else family.normalizer


def _expanded(family, seed, tied=True):
    """Noise times units; or, if not tied, times each weight by itself."""
    rng = np.random.default_rng(seed)
    h = np.broadcast_to(X, (NETWORKS, len(X)))
    for layer, sizes in enumerate(itertools.pairwise(SIZES)):
        weights = rng.normal(0, SIGMA, (NETWORKS, *sizes))
        if tied:
            h = h * _scales(family, seed, layer, h.shape)
        else:
            weights *= _scales(family, seed, layer, weights.shape)
        h = np.einsum("nr,nrj->nj", h, weights)
        h = np.tanh(h) if layer == 0 else h
    return h


def _hierarchical(family, seed):
    """Weights of a random variance, one for each row."""
    rng = np.random.default_rng(seed)
    prior = family.variance_prior("float64")
    ours = type(prior).__module__.startswith("keras_bayesdrop")
    h = np.broadcast_to(X, (NETWORKS, len(X)))
    for layer, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        key = seed + layer
        variance = prior.sample((NETWORKS, rows), key if ours else (key, 0))
        deviation = SIGMA * np.sqrt(variance) / _normalizer(family)
        weights = rng.normal(size=(NETWORKS, rows, columns))
        weights *= deviation[:, :, None]
        h = np.einsum("nr,nrj->nj", h, weights)
        h = np.tanh(h) if layer == 0 else h
    return h


def _p_values(one, other):
    """Of an output, of the product of both, and of their largest size."""
    statistics = (
        lambda y: y[:, 0],
        lambda y: y[:, 0] * y[:, 1],
        lambda y: np.abs(y).max(axis=1),
    )
    return [
        scipy.stats.ks_2samp(f(one), f(other), method="asymp").pvalue
        for f in statistics
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_both_forms_predict_the_same(name):
    family = FAMILIES[name]
    p_values = _p_values(_expanded(family, 1), _hierarchical(family, 100))
    assert min(p_values) > LEVEL


@pytest.mark.parametrize("family", [noise.Bernoulli(0.8), noise.HalfCauchy()])
def test_noise_on_every_weight_is_another_prior(family):
    """Without the ties of a row the test above fails, as it must."""
    untied = _expanded(family, 1, tied=False)
    assert min(_p_values(untied, _hierarchical(family, 100))) < LEVEL


@pytest.mark.parametrize(
    "name",
    ["bernoulli", "gaussian", "rayleigh", "inverse_nakagami", "half_cauchy"],
)
def test_noise_on_every_weight_is_the_marginal_prior(name):
    """Section 3.5: the weights are then independent, of that density."""
    family = FAMILIES[name]
    prior = family.marginal_prior(SIGMA / _normalizer(family), "float64")
    ours = type(prior).__module__.startswith("keras_bayesdrop")
    h = np.broadcast_to(X, (NETWORKS, len(X)))
    for layer, sizes in enumerate(itertools.pairwise(SIZES)):
        key = 100 + layer
        weights = prior.sample((NETWORKS, *sizes), key if ours else (key, 0))
        h = np.einsum("nr,nrj->nj", h, weights)
        h = np.tanh(h) if layer == 0 else h
    assert min(_p_values(_expanded(family, 1, tied=False), h)) > LEVEL


# Samples of a prediction: 2,000 against 10,000 draws find out CDFs that differ
# by 0.055: sqrt(log(2 / 1e-4) / 2 * (1 / 2,000 + 1 / 10,000)). 6 tests of 3
# statistics more.
SAMPLES = 2_000


def _outputs_of_fresh_weights(make):
    """Draws of two outputs, each with noise and weights of its own.

    Sample `t` is read off at two outputs that no other sample is read off at,
    and the columns of a Gaussian kernel are independent.
    """
    rng = np.random.default_rng(3)
    model = keras.Sequential([keras.Input((len(X),)), *make(2 * SAMPLES)])
    kernel = model.layers[-1].kernel
    kernel.assign(rng.normal(0, SIGMA, kernel.shape))
    samples = kbd.predict_with_uncertainty(
        model,
        X[None].astype("float32"),
        SAMPLES,
        seed=5,
        return_samples=True,
        verbose=0,
    ).samples  # [samples, 1, outputs]
    pairs = samples.reshape(SAMPLES, SAMPLES, 2)
    return pairs[np.arange(SAMPLES), np.arange(SAMPLES)]


def _leaky(h):
    """Not tanh, which is 1 in float32 where it is not yet in float64."""
    return np.where(h > 0, h, 0.2 * h)


@pytest.mark.parametrize(
    "name", ["bernoulli", "gaussian", "rayleigh", "half_cauchy"]
)
def test_layers_predict_the_hierarchical_model(name):
    family = FAMILIES[name]
    outputs = _outputs_of_fresh_weights(
        lambda units: (
            kbd.MCDropout(noise=family),
            keras.layers.Dense(units, activation="leaky_relu", use_bias=False),
        )
    )
    prior = family.variance_prior("float64")
    ours = type(prior).__module__.startswith("keras_bayesdrop")
    rows = (NETWORKS, len(X), 1)
    variance = prior.sample(rows, 77 if ours else (77, 0))
    deviation = SIGMA * np.sqrt(variance) / family.normalizer
    normal = np.random.default_rng(8).normal(size=(NETWORKS, len(X), 2))
    expected = _leaky(np.einsum("r,nrj->nj", X, deviation * normal))
    assert min(_p_values(outputs, expected)) > LEVEL


@pytest.mark.parametrize("name", ["bernoulli", "rayleigh"])
def test_layers_with_noise_on_weights_predict_the_marginal_prior(name):
    family = FAMILIES[name]
    outputs = _outputs_of_fresh_weights(
        lambda units: (
            kbd.layers.DropConnectDense(
                units, noise=family, activation="leaky_relu", use_bias=False
            ),
        )
    )
    prior = family.marginal_prior(SIGMA / family.normalizer, "float64")
    ours = type(prior).__module__.startswith("keras_bayesdrop")
    shape = (NETWORKS, len(X), 2)
    weights = prior.sample(shape, 77 if ours else (77, 0))
    expected = _leaky(np.einsum("r,nrj->nj", X, weights))
    assert min(_p_values(outputs, expected)) > LEVEL
