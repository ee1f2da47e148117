# SPDX-License-Identifier: Apache-2.0
"""Moments of linear networks against all masks, one by one."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.theory import linear_moments
from tests.theory.masks import moments_of
from tests.theory.masks import run_all

DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)]
)
SCALED = pytest.mark.parametrize("inverted", [True, False])

# Sizes of layers; which layers are connected.
SHALLOW = ((4, 3), [(0, 1)])
CHAIN = ((3, 4, 2), [(0, 1), (1, 2)])
DEEP = ((2, 3, 2, 2), [(0, 1), (1, 2), (2, 3)])
SKIPS = ((2, 3, 2, 2), [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)])
SMALL_SKIPS = ((2, 2, 1, 1), [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])


def _make(network, dtype, seed=0):
    sizes, pairs = network
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, sizes[0])).astype(dtype)
    kernels = {
        (a, b): rng.normal(size=(sizes[a], sizes[b])).astype(dtype)
        for a, b in pairs
    }
    biases = [rng.normal(size=size).astype(dtype) for size in sizes[1:]]
    units = [rng.uniform(0.1, 0.9, size) for size in sizes[:-1]]
    connections = {
        pair: rng.uniform(0.1, 0.9, kernel.shape)
        for pair, kernel in kernels.items()
    }
    return x, kernels, biases, units, connections


def _compare(moments, x, kernels, tolerance, **kwargs):
    """Compares means and covariances of all layers, relative to the largest."""
    for row, inputs in enumerate(np.float64(x)):
        wide = {pair: np.float64(kernel) for pair, kernel in kernels.items()}
        values, chances = run_all(inputs, wide, **kwargs)
        mean, covariance = moments_of(np.concatenate(values, 1), chances)
        np.testing.assert_allclose(
            np.concatenate([m[row] for m in moments.means]),
            mean,
            atol=tolerance * np.abs(mean).max(),
            rtol=0,
        )
        scale = np.abs(covariance).max()
        np.testing.assert_allclose(
            moments.joint[row], covariance, atol=tolerance * scale, rtol=0
        )
        last = values[-1].shape[1]
        own = covariance[-last:, -last:]
        np.testing.assert_allclose(
            moments.covariance[row], own, atol=tolerance * scale, rtol=0
        )
        np.testing.assert_allclose(
            moments.variance[row], np.diag(own), atol=tolerance * scale, rtol=0
        )


@DTYPES
@SCALED
@pytest.mark.parametrize("network", [SHALLOW, CHAIN, DEEP, SKIPS])
def test_dropped_units_eq_15_to_17_24_and_25(
    network, inverted, dtype, tolerance
):
    x, kernels, biases, rates, _ = _make(network, dtype)
    moments = linear_moments(
        x, kernels, rates, biases=biases, inverted=inverted
    )
    assert moments.mean.dtype == moments.joint.dtype == dtype
    _compare(
        moments,
        x,
        kernels,
        tolerance,
        units=rates,
        biases=biases,
        scale=inverted,
    )


@DTYPES
@SCALED
@pytest.mark.parametrize("network", [SHALLOW, SMALL_SKIPS])
def test_dropped_connections_eq_18_to_20_and_26(
    network, inverted, dtype, tolerance
):
    x, kernels, biases, _, rates = _make(network, dtype)
    moments = linear_moments(
        x, kernels, None, rates, biases=biases, inverted=inverted
    )
    _compare(
        moments,
        x,
        kernels,
        tolerance,
        connections=rates,
        biases=biases,
        scale=inverted,
    )


def test_outputs_of_dropped_connections_are_apart_eq_20():
    x, kernels, _, units, connections = _make(SHALLOW, "float64")
    apart = linear_moments(x, kernels, None, connections).covariance
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_array_equal(np.asarray(apart)[:, off], 0.0)
    together = linear_moments(x, kernels, units).covariance
    assert np.abs(np.asarray(together)[:, off]).min() > 1e-3


def test_units_and_connections_at_once():
    x, kernels, _, units, connections = _make(((2, 2, 1), CHAIN[1]), "float64")
    moments = linear_moments(x, kernels, units, connections)
    _compare(moments, x, kernels, 1e-12, units=units, connections=connections)


def test_halved_weights_eq_5_and_11():
    x = np.array([[1.0, -2.0, 3.0]])
    w = np.array([[0.5], [1.5], [-1.0]])
    moments = linear_moments(x, [w], 0.5, inverted=False)
    np.testing.assert_allclose(moments.mean, x @ w / 2, rtol=1e-14)
    variance = np.sum(w[:, 0] ** 2 * x[0] ** 2) / 4
    np.testing.assert_allclose(moments.variance, [[variance]], rtol=1e-14)


def _printed_eq_25(means, kernels, rates):
    """E(S S') of all pairs of layers by the recursion as it is printed."""
    keep = [1 - rate for rate in rates]
    second = {}
    for h, mean in enumerate(means):
        second[h, 0] = np.outer(mean, means[0])
        second[0, h] = second[h, 0].T
        for other in range(1, h + 1):
            total = 0.0
            for a in range(h):
                for b in range(other):
                    if (a, h) not in kernels or (b, other) not in kernels:
                        continue
                    both = np.outer(keep[a], keep[b])
                    if a == b:
                        np.fill_diagonal(both, keep[a])
                    inner = both * second[a, b]
                    total = total + kernels[a, h].T @ inner @ kernels[b, other]
            second[h, other], second[other, h] = total, total.T
    return second


@pytest.mark.parametrize("network", [DEEP, SKIPS])
def test_print_of_eq_25_is_wrong_across_layers_and_with_skips(network):
    x, kernels, _, rates, _ = _make(network, "float64")
    moments = linear_moments(x, kernels, rates, inverted=False)
    means = [np.asarray(mean)[0] for mean in moments.means]
    printed = _printed_eq_25(means, kernels, rates)
    error = {}
    for pair, second in printed.items():
        a, b = pair
        outer = np.outer(means[a], means[b])
        right = np.asarray(moments.between(a, b))[0] + outer
        error[pair] = np.abs(second - right).max() / np.abs(right).max()
    if network is DEEP:
        # Within a layer of a chain it holds.
        assert max(error[n, n] for n in range(4)) < 1e-12
    else:
        assert error[3, 3] > 0.01
    assert error[3, 2] > 0.01


def test_what_a_single_rate_means():
    x, kernels, _, _, _ = _make(CHAIN, "float64")
    chain = [kernels[0, 1], kernels[1, 2]]
    one = linear_moments(x, chain, 0.3, 0.2)
    all_of_them = linear_moments(x, kernels, [0.3, np.full(4, 0.3)], [0.2, 0.2])
    np.testing.assert_array_equal(one.joint, all_of_them.joint)


@SCALED
def test_rates_of_zero_and_one(inverted):
    x, kernels, _, _, _ = _make(CHAIN, "float64")
    sure = linear_moments(x, kernels, 0.0, inverted=inverted)
    np.testing.assert_array_equal(sure.joint, 0.0)
    straight = x @ kernels[0, 1] @ kernels[1, 2]
    np.testing.assert_allclose(sure.mean, straight, rtol=1e-12)
    gone = linear_moments(x, kernels, [0.3, 1.0], inverted=inverted)
    np.testing.assert_array_equal(gone.mean, 0.0)
    np.testing.assert_array_equal(gone.variance, 0.0)


def test_compiles():
    x, kernels, _, rates, _ = _make(CHAIN, "float32")
    chain = list(kernels.values())

    @tf.function
    def variance(x):
        return linear_moments(x, chain, rates).variance

    eager = linear_moments(x, chain, rates).variance
    np.testing.assert_allclose(variance(tf.constant(x)), eager, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.ones(3)}, r"`x`.*\[rows, units\].*Received"),
        ({"x": np.ones((2, 3), int)}, "`x`.*float32 or float64.*int64"),
        ({"kernels": []}, "`kernels`.*at least one"),
        ({"kernels": {(1, 0): np.ones((3, 2))}}, "`kernels`.*ascending"),
        ({"kernels": {(0, 2): np.ones((3, 2))}}, "`kernels`.*layer 1"),
        ({"kernels": [np.ones((4, 2))]}, r"`kernels`.*\(3, 2\).*\(4, 2\)"),
        ({"unit_rates": 1.5}, r"`unit_rates`.*\[0, 1\].*1.5"),
        ({"unit_rates": [0.1, 0.2]}, "`unit_rates`.*length 1"),
        ({"unit_rates": [[0.1, 0.2]]}, r"`unit_rates`.*\(3,\)"),
        ({"connection_rates": [0.1, 0.2]}, "`connection_rates`.*`kernels`"),
        ({"biases": [np.ones(3)]}, r"`biases`.*\(2,\).*\(3,\)"),
        ({"biases": []}, "`biases`.*length 1.*0"),
    ],
)
def test_wrong_arguments(arguments, message):
    right = {"x": np.ones((2, 3)), "kernels": [np.ones((3, 2))]}
    with pytest.raises(BayesdropError, match=message):
        linear_moments(**{**right, **arguments})
