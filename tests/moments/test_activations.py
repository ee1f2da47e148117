# SPDX-License-Identifier: Apache-2.0
"""Moments of activations of normal variables, against fine integration."""

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.moments import activations
from keras_bayesdrop.moments import normal
from tests.moments.integration import moments_of_normal

MEANS = np.array([-8.0, -2.0, -0.5, 0.0, 0.3, 1.0, 4.0, 8.0])
STDDEVS = np.array([0.01, 0.1, 0.5, 1.0, 2.0, 6.0])

# Largest measured error of mean and standard deviation on the grid above, with
# 16 nodes, divided by the spread of the input.
QUADRATURE = {
    "sigmoid": 4e-4,
    "tanh": 8e-4,
    "gelu": 0.015,
    "silu": 0.01,
    "elu": 0.02,
    "selu": 0.03,
    "softplus": 0.01,
    "softsign": 0.03,
    "mish": 0.01,
}


def _found(activation, dtype=np.float32):
    mean, stddev = np.meshgrid(MEANS, STDDEVS)
    moments = activation(
        tf.constant(mean.astype(dtype)), tf.constant((stddev**2).astype(dtype))
    )
    return mean, stddev, [np.asarray(each) for each in moments]


def _compare(activation, function, tolerance):
    mean, stddev, (first, second, gain) = _found(activation)
    for place in np.ndindex(mean.shape):
        m, s = mean[place], stddev[place]
        want_first, want_second, want_gain = moments_of_normal(function, m, s)
        # In units of the input's spread; float32 rounds relative to the mean.
        rounding = 4e-7 * (1 + abs(m) / s)
        allowed = tolerance + rounding
        assert abs(first[place] - want_first) <= allowed * s, (m, s)
        spread = abs(np.sqrt(second[place]) - np.sqrt(want_second))
        assert spread <= (tolerance + 2 * np.sqrt(rounding)) * s, (m, s)
        # Differences of float32 have few digits.
        assert abs(gain[place] - want_gain) <= tolerance + 2e-3, (m, s)


def test_relu_eq_72_is_exact():
    _compare(activations.relu, lambda x: np.maximum(x, 0), 1e-6)


@pytest.mark.parametrize("slope", [0.01, 0.2, 0.5])
def test_leaky_relu_is_exact(slope):
    _compare(
        activations.leaky_relu(slope), lambda x: np.maximum(x, slope * x), 1e-6
    )


@pytest.mark.parametrize("name", sorted(QUADRATURE))
def test_quadrature(name):
    function = getattr(keras.activations, name)
    _compare(
        activations.activation_of(function),
        lambda x: keras.ops.convert_to_numpy(function(x)),
        QUADRATURE[name],
    )


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
@pytest.mark.parametrize("stddev", [1.3, 1.4, 2.7, 2.8, 5.0, 30.0, 1e3])
def test_steps_of_wide_variables(name, stddev):
    """Here the nodes of a normal quadrature lie on both sides of the step."""
    function = {"sigmoid": scipy.special.expit, "tanh": np.tanh}[name]
    means = np.array([-20.0, -5.0, -1.0, 0.0, 0.2, 3.0, 12.0, 2 * stddev])
    first, second, gain = (
        np.asarray(each)
        for each in getattr(activations, name)(
            tf.constant(means, tf.float32),
            tf.constant(np.full(means.shape, stddev**2), tf.float32),
        )
    )
    # The function rises from 0 to 1, or from -1 to 1.
    height = 2.0 if name == "tanh" else 1.0
    for place, mean in enumerate(means):
        want_first, want_second, want_gain = moments_of_normal(
            function, mean, stddev
        )
        assert abs(first[place] - want_first) < 1.3e-3 * height
        error = np.sqrt(second[place]) - np.sqrt(want_second)
        assert abs(error) < 1.3e-3 * height
        assert abs(gain[place] - want_gain) * stddev < 5e-3 * height


def test_wide_variables_do_not_change_their_neighbours():
    mean = tf.constant([[0.3, -2.0, 1.0]])
    for rule in (activations.sigmoid, activations.tanh):
        without = rule(mean, tf.constant([[0.1, 1.0, 2.0]]))
        beside = rule(mean, tf.constant([[0.1, 1.0, 400.0]]))
        for one, other in zip(without, beside, strict=True):
            np.testing.assert_array_equal(one[:, :2], other[:, :2])


@pytest.mark.parametrize("mean", [-1e4, -40.0, 40.0, 1e4])
def test_relu_far_out_keeps_its_digits(mean):
    """Here squares would cancel: mean and variance are those of x, or 0."""
    first, second, gain = activations.relu(
        tf.constant([mean]), tf.constant([1e-4])
    )
    on = float(mean > 0)
    np.testing.assert_allclose(first, [max(mean, 0)], rtol=1e-6)
    np.testing.assert_allclose(second, [1e-4 * on], rtol=1e-6)
    np.testing.assert_allclose(gain, [on], rtol=1e-6)


def test_without_spread_everything_is_certain():
    mean = tf.constant([-2.0, -0.1, 0.1, 3.0])
    for name in ("relu", "leaky_relu", *QUADRATURE):
        function = getattr(keras.activations, name)
        known = activations.activation_of(function)
        first, second, gain = known(mean, tf.zeros(4))
        np.testing.assert_allclose(first, function(mean), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(second, np.zeros(4), atol=1e-12)
        step = 1e-3
        slope = (function(mean + step) - function(mean - step)) / (2 * step)
        np.testing.assert_allclose(gain, slope, atol=2e-3)


@pytest.mark.parametrize("correlation", [-0.99, -0.5, 0.0, 0.3, 0.8, 0.99])
def test_relu_covariance_is_exact(correlation):
    """Compares with an integral over both variables."""
    rng = np.random.default_rng(1)
    mean = rng.normal(size=(6, 2))
    stddev = np.exp(rng.normal(size=(6, 2)))
    outer = stddev[:, :, None] * stddev[:, None, :]
    covariance = outer * np.array([[1, correlation], [correlation, 1]])
    covariances = activations.relu_covariance(
        tf.constant(mean), tf.constant(covariance)
    )
    z = np.linspace(-9, 9, 901)
    z1, z2 = np.meshgrid(z, z)
    density = np.exp(-(z1**2 + z2**2) / 2) / (2 * np.pi) * (z[1] - z[0]) ** 2
    rest = np.sqrt(1 - correlation**2)
    for row in range(6):
        y1 = np.maximum(mean[row, 0] + stddev[row, 0] * z1, 0)
        mixed = correlation * z1 + rest * z2
        y2 = np.maximum(mean[row, 1] + stddev[row, 1] * mixed, 0)
        m1, m2 = (y1 * density).sum(), (y2 * density).sum()
        truth = ((y1 - m1) * (y2 - m2) * density).sum()
        # With six nodes; the reference has an error of 1e-5.
        error = abs(float(covariances[row, 0, 1]) - truth)
        assert error <= 2e-3 * stddev[row].prod(), (row, error)


def test_the_mean_derivative_is_that_of_the_mean():
    """Stein's identity, by differences of the mean itself."""
    mean = np.linspace(-3, 3, 13)
    step = 1e-4
    for function in (tf.tanh, tf.sigmoid):
        up, _, _ = normal.expectation(
            function, tf.constant(mean + step), tf.ones(13, tf.float64)
        )
        down, _, _ = normal.expectation(
            function, tf.constant(mean - step), tf.ones(13, tf.float64)
        )
        _, _, gain = normal.expectation(
            function, tf.constant(mean), tf.ones(13, tf.float64)
        )
        # Two quadratures of the same order differ by at most 1e-4.
        np.testing.assert_allclose(gain, (up - down) / (2 * step), atol=1e-3)
