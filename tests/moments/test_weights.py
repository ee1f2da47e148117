# SPDX-License-Identifier: Apache-2.0
"""Noise of every kind in linear networks, against sums over all its values.

Mean and covariance of a linear network depend only on mean and variance of its
noise. Noise of two values, `mean -+ std`, can replace any other noise, and all
combinations of its values are summed.
"""

import itertools

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.moments.passes import moments_of

layers = keras.layers
BOTH = pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)]
)


def _sum_up(function, *shapes):
    """Mean and covariance of `function` of signs, over all signs."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=sum(sizes))))
    parts = np.split(signs, np.cumsum(sizes)[:-1], axis=1)
    y = function(
        *(p.reshape(-1, *s) for p, s in zip(parts, shapes, strict=True))
    )
    return y.mean(axis=0), np.cov(y.T, bias=True)


def _compare(model, function, shapes, dtype, tolerance):
    """`function` takes a row and signs, and returns an output for each."""
    x = np.random.default_rng(1).normal(size=(2, 2)).astype(dtype)
    mean, _, covariance = moments_of(model, x, full=True)
    truths = [
        _sum_up(lambda *signs, row=row: function(row, *signs), *shapes)
        for row in x.astype(np.float64)
    ]
    scale = max(np.abs(truth[1]).max() for truth in truths)
    for each_mean, each, truth in zip(mean, covariance, truths, strict=True):
        np.testing.assert_allclose(each_mean, truth[0], atol=10 * tolerance)
        np.testing.assert_allclose(each, truth[1], atol=tolerance * scale)


def _weights(*dense):
    """Kernels and biases, in float64."""
    arrays = []
    for layer in dense:
        arrays += [
            np.asarray(w, np.float64) for w in (layer.kernel, layer.bias)
        ]
    return arrays


def _stddev(rate):
    return np.sqrt(rate / (1 - rate))


def _randomise(model):
    """Sets random weights, with biases that are not zero."""
    rng = np.random.default_rng(2)
    for layer in model.layers:
        for name in ("kernel", "bias"):
            if hasattr(layer, name):
                weight = getattr(layer, name)
                weight.assign(rng.normal(size=weight.shape))


@BOTH
@pytest.mark.parametrize("noise", ["bernoulli", "gaussian"])
def test_connections_with_a_skip_eq_15_to_26(noise, dtype, tolerance):
    x = keras.Input((2,), dtype=dtype)
    dense = kbd.layers.DropConnectDense
    one = dense(2, 0.3, noise=noise, dtype=dtype)
    two = dense(2, 0.4, noise=noise, dtype=dtype)
    hidden = one(x)
    model = keras.Model(x, layers.Add(dtype=dtype)([two(hidden), hidden]))
    _randomise(model)
    w1, b1, w2, b2 = _weights(one, two)

    def function(row, s1, s2):
        h = row @ (w1 * (1 + _stddev(0.3) * s1)) + b1
        noisy = w2 * (1 + _stddev(0.4) * s2)
        return np.einsum("ni,nij->nj", h, noisy) + b2 + h

    _compare(model, function, [(2, 2), (2, 2)], dtype, tolerance)


@BOTH
def test_units_and_connections(dtype, tolerance):
    one = kbd.layers.DropConnectDense(2, 0.3, dtype=dtype)
    two = layers.Dense(2, dtype=dtype)
    model = keras.Sequential(
        [
            keras.Input((2,), dtype=dtype),
            layers.Dropout(0.25, dtype=dtype),
            one,
            layers.Dropout(0.5, dtype=dtype),
            two,
        ]
    )
    _randomise(model)
    w1, b1, w2, b2 = _weights(one, two)

    def function(row, s0, s1, s2):
        dropped = row * (1 + _stddev(0.25) * s0)
        noisy = w1 * (1 + _stddev(0.3) * s1)
        h = np.einsum("ni,nij->nj", dropped, noisy) + b1
        return h * (1 + _stddev(0.5) * s2) @ w2 + b2

    _compare(model, function, [(2,), (2, 2), (2,)], dtype, tolerance)


@BOTH
def test_gaussian_noise_that_multiplies_and_that_adds(dtype, tolerance):
    one, two = (layers.Dense(2, dtype=dtype) for _ in range(2))
    model = keras.Sequential(
        [
            keras.Input((2,), dtype=dtype),
            layers.GaussianDropout(0.3, dtype=dtype),
            one,
            layers.GaussianNoise(0.7, dtype=dtype),
            kbd.layers.MCGaussianDropout(0.4, dtype=dtype),
            two,
        ]
    )
    _randomise(model)
    w1, b1, w2, b2 = _weights(one, two)

    def function(row, s0, s1, s2):
        h = row * (1 + _stddev(0.3) * s0) @ w1 + b1 + 0.7 * s1
        return h * (1 + _stddev(0.4) * s2) @ w2 + b2

    _compare(model, function, [(2,), (2,), (2,)], dtype, tolerance)


@BOTH
def test_alpha_dropout_replaces_what_it_drops(dtype, tolerance):
    one, two = (layers.Dense(2, dtype=dtype) for _ in range(2))
    rate = 0.3
    model = keras.Sequential(
        [
            keras.Input((2,), dtype=dtype),
            one,
            layers.AlphaDropout(rate, dtype=dtype),
            two,
        ]
    )
    _randomise(model)
    w1, b1, w2, b2 = _weights(one, two)
    low = -1.6732632423543772 * 1.0507009873554805
    a = ((1 - rate) * (1 + rate * low**2)) ** -0.5

    def function(row, s0):
        # A kept unit has mean 1 - rate and this standard deviation.
        kept = (1 - rate) + np.sqrt(rate * (1 - rate)) * s0
        h = row @ w1 + b1
        return (a * (kept * h + (1 - kept) * low) - a * low * rate) @ w2 + b2

    _compare(model, function, [(2,)], dtype, tolerance)


@BOTH
def test_learned_rates(dtype, tolerance):
    one, two = (layers.Dense(2, dtype=dtype) for _ in range(2))
    concrete = kbd.layers.ConcreteDropout(
        one, num_train_examples=10, init_rate=0.35, dtype=dtype
    )
    varied = kbd.layers.VariationalDropout(
        10, alpha="unit", prior="gaussian", dtype=dtype
    )
    model = keras.Sequential(
        [keras.Input((2,), dtype=dtype), concrete, varied, two]
    )
    _randomise(model)
    log_alpha = np.array([-1.0, 0.3])
    varied.weights[0].assign(log_alpha)
    w1, b1, w2, b2 = _weights(one, two)
    rate = concrete.rate

    def function(row, s0, s1):
        h = row * (1 + _stddev(rate) * s0) @ w1 + b1
        return h * (1 + np.exp(log_alpha / 2) * s1) @ w2 + b2

    _compare(model, function, [(2,), (2,)], dtype, tolerance)


def _variational(parametrization):
    return lambda dtype: kbd.layers.VariationalDense(
        2,
        10,
        parametrization=parametrization,
        prior="gaussian",
        noise_initializer=keras.initializers.RandomUniform(-2, 0, seed=1),
        dtype=dtype,
    )


def _bayesian(dtype):
    return kbd.layers.BayesianDense(
        2,
        10,
        noise_initializer=keras.initializers.RandomUniform(-2, 0, seed=1),
        dtype=dtype,
    )


@BOTH
@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (_variational("additive"), "additive"),
        (_variational("multiplicative"), "multiplicative"),
        (_variational("correlated"), "correlated"),
        (_bayesian, "additive"),
    ],
    ids=["additive", "multiplicative", "correlated", "bayesian"],
)
def test_weights_of_learned_variance(build, kind, dtype, tolerance):
    one, two = build(dtype), layers.Dense(2, dtype=dtype)
    model = keras.Sequential(
        [
            keras.Input((2,), dtype=dtype),
            layers.Dropout(0.25, dtype=dtype),
            one,
            two,
        ]
    )
    _randomise(model)
    w1, b1, w2, b2 = _weights(one, two)
    noise = np.exp(np.asarray(one.log_noise, np.float64) / 2)
    shape = (2, 1) if kind == "correlated" else (2, 2)

    def function(row, s0, s1):
        dropped = row * (1 + _stddev(0.25) * s0)
        noisy = w1 + noise * s1 * (1.0 if kind == "additive" else w1)
        return (np.einsum("ni,nij->nj", dropped, noisy) + b1) @ w2 + b2

    _compare(model, function, [(2,), shape], dtype, tolerance)


def test_connections_of_a_convolution():
    """A single layer is exact without covariances."""
    conv = kbd.layers.DropConnectConv2D(2, (2, 1), 0.3)
    model = keras.Sequential([keras.Input((3, 2, 1)), conv])
    x = np.random.default_rng(1).normal(size=(1, 3, 2, 1)).astype(np.float32)
    prediction = kbd.predict_with_uncertainty(
        model, x, method="moments", verbose=0
    )
    np.testing.assert_allclose(prediction.mean, model(x), atol=1e-6)
    kernel = np.asarray(conv.kernel)
    expected = sum(
        (_stddev(0.3) * x[:, i : i + 2] * kernel[i, 0, 0]) ** 2
        for i in range(2)
    )
    np.testing.assert_allclose(prediction.variance, expected, rtol=1e-5)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_weights_whose_noise_is_off_only_hand_on(covariance):
    keras.utils.set_random_seed(1)
    noisy = kbd.layers.DropConnectDense(2, 0.3)
    plain = layers.Dense(2)
    models = [
        keras.Sequential(
            [keras.Input((3,)), layers.Dropout(0.4, name="d"), last]
        )
        for last in (noisy, plain)
    ]
    plain.set_weights(noisy.get_weights())
    x = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)
    off, expected, on = (
        kbd.predict_with_uncertainty(
            model,
            x,
            verbose=0,
            layers=which,
            method=kbd.Moments(covariance=covariance),
        )
        for model, which in zip(
            (*models, models[0]), ("d", None, None), strict=True
        )
    )
    np.testing.assert_allclose(off.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(off.variance, expected.variance, rtol=1e-5)
    assert np.all(on.variance > off.variance)
