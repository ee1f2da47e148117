# SPDX-License-Identifier: Apache-2.0
"""The expected gradient of dropout, against that over all masks."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.theory import expected_gradient
from tests.theory.masks import moments_of
from tests.theory.masks import run_all

CHAIN = ((2, 3, 2, 2), [(0, 1), (1, 2), (2, 3)])
SKIPS = ((2, 3, 2, 1), [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)])


def _error(unit, s, t):
    """Errors [masks] of inputs [masks, outputs] of output units."""
    if unit == "linear":
        return 0.5 * tf.reduce_sum((t - s) ** 2, 1)
    t = t * tf.ones_like(s)
    if unit == "logistic":
        each = tf.nn.sigmoid_cross_entropy_with_logits(t, s)
        return tf.reduce_sum(each, 1)
    return tf.nn.softmax_cross_entropy_with_logits(t, s)


def _over_masks(x, targets, kernels, unit="linear", gain=1.0, **kwargs):
    """The gradient of the error, averaged over all masks and rows."""
    kernels = {pair: tf.constant(kernel) for pair, kernel in kernels.items()}
    with tf.GradientTape() as tape:
        tape.watch(kernels)
        total = 0.0
        for row, target in zip(x, targets, strict=True):
            values, chances = run_all(row, kernels, **kwargs)
            errors = _error(unit, gain * values[-1], target)
            total += tf.reduce_sum(chances * errors) / len(x)
    return tape.gradient(total, kernels)


def _make(sizes, pairs, seed=0, rows=2):
    rng = np.random.default_rng(seed)
    kernels = {(a, b): rng.normal(size=(sizes[a], sizes[b])) for a, b in pairs}
    rates = [rng.uniform(0.1, 0.9, size) for size in sizes[:-1]]
    x = rng.normal(size=(rows, sizes[0]))
    return x, rng.normal(size=(rows, sizes[-1])), kernels, rates


def _close(gradient, expected, tolerance=1e-12):
    assert list(gradient) == list(expected)
    for pair, each in expected.items():
        scale = np.abs(each).max()
        np.testing.assert_allclose(
            gradient[pair], each, atol=tolerance * scale, rtol=0
        )


@pytest.mark.parametrize("inverted", [True, False])
def test_single_linear_unit_eq_144_146_and_147(inverted):
    x, t, kernels, (rates,) = _make((4, 1), [(0, 1)], rows=1)
    gradient = expected_gradient(x, t, kernels, [rates], inverted=inverted)
    keep = 1 - rates
    mean = np.ones(4) if inverted else keep
    variance = rates / keep if inverted else rates * keep
    w = kernels[0, 1][:, 0]
    off = t[0, 0] - np.sum(mean * w * x[0])
    ensemble = -off * mean * x[0]
    np.testing.assert_allclose(
        gradient.ensemble[0, 1][:, 0], ensemble, rtol=1e-12
    )
    penalty = w * x[0] ** 2 * variance
    np.testing.assert_allclose(
        gradient.penalty[0, 1][:, 0], penalty, rtol=1e-12
    )
    exact = _over_masks(x, t, kernels, units=[rates], scale=inverted)
    _close(gradient.total, exact)
    # The middle of eq. 146 with both probabilities, by its terms.
    if not inverted:
        others = np.outer(keep * x[0], keep * x[0] * w)
        np.fill_diagonal(others, 0.0)
        middle = -t[0, 0] * keep * x[0] + w * keep * x[0] ** 2 + others.sum(1)
        np.testing.assert_allclose(exact[0, 1][:, 0], middle, rtol=1e-12)


@pytest.mark.parametrize("inverted", [True, False])
@pytest.mark.parametrize("network", [CHAIN, SKIPS])
def test_any_weight_of_a_deep_linear_network_eq_154_and_155(network, inverted):
    x, t, kernels, rates = _make(*network)
    gradient = expected_gradient(x, t, kernels, rates, inverted=inverted)
    _close(
        gradient.total, _over_masks(x, t, kernels, units=rates, scale=inverted)
    )


def test_deep_linear_network_with_dropped_connections_eq_155():
    x, t, kernels, _ = _make((2, 2, 2), [(0, 1), (1, 2)])
    rates = {pair: np.full((2, 2), 0.3) for pair in kernels}
    gradient = expected_gradient(x, t, list(kernels.values()), None, [0.3, 0.3])
    _close(gradient.total, _over_masks(x, t, kernels, connections=rates))


def test_top_layer_needs_all_covariances_eq_150():
    """The printed formula has the variance of a unit alone."""
    x, t, kernels, rates = _make((3, 3, 1), [(0, 1), (1, 2)], 1, rows=1)
    gradient = expected_gradient(x, t, kernels, rates, inverted=False)
    values, chances = run_all(x[0], kernels, rates, scale=False)
    # The last layer's masks are in its input, but not in the layer itself.
    covariance = moments_of(values[1], chances)[1]
    mean = chances @ values[1].numpy()
    keep = 1 - rates[1]
    sent = covariance * np.outer(keep, keep)
    second = np.diag(covariance) + mean**2
    np.fill_diagonal(sent, keep * second - (keep * mean) ** 2)
    w = kernels[1, 2][:, 0]
    np.testing.assert_allclose(
        gradient.penalty[1, 2][:, 0], sent @ w, rtol=1e-10
    )
    printed = np.diag(sent) * w
    assert np.abs(printed / (sent @ w) - 1).max() > 0.1


def _shrinking_errors(unit, outputs, rates=None, **kwargs):
    """Largest errors of the expected gradient at two sizes of the kernel.

    The second number is of the gradient without any penalty.
    """
    rng = np.random.default_rng(4)
    x, kernel = rng.normal(size=(2, 5)), rng.normal(size=(5, outputs))
    bias = rng.normal(size=outputs)
    t = scipy.special.softmax(rng.normal(size=(2, outputs)), axis=1)
    if rates is None:
        rates = rng.uniform(0.2, 0.6, 5)
    errors = []
    for size in (1 / 64, 1 / 128):
        kernels = {(0, 1): size * kernel}
        gradient = expected_gradient(
            x, t, kernels, [rates], biases=[bias], unit=unit, **kwargs
        )
        exact = _over_masks(
            x,
            t,
            kernels,
            unit,
            kwargs.get("gain", 1.0),
            units=[rates],
            biases=[bias],
        )[0, 1]
        errors.append(
            [
                np.abs(each - exact).max()
                for each in (gradient.total[0, 1], gradient.ensemble[0, 1])
            ]
        )
    return np.array(errors)


@pytest.mark.parametrize("gain", [1.0, 1.5])
@pytest.mark.parametrize(
    ("unit", "outputs"), [("logistic", 1), ("logistic", 3), ("softmax", 3)]
)
def test_logistic_units_are_right_to_first_order_eq_159_to_164(
    unit, outputs, gain
):
    errors = _shrinking_errors(unit, outputs, gain=gain)
    # Half the kernel: a fourth of an error of second order, a half of one of
    # first order, up to the next order.
    assert 3.7 < errors[0, 0] / errors[1, 0] < 4.3
    assert 1.8 < errors[0, 1] / errors[1, 1] < 2.2
    assert errors[1, 0] < errors[1, 1] / 10


@pytest.mark.parametrize(
    ("unit", "outputs"), [("logistic", 1), ("logistic", 3), ("softmax", 3)]
)
def test_expected_error_to_second_order(unit, outputs):
    half = np.full(5, 0.5)
    errors = _shrinking_errors(unit, outputs, half, hold_curvature=False)
    assert 7.4 < errors[0, 0] / errors[1, 0] < 8.6
    # At other rates the factors have third moments.
    free = _shrinking_errors(unit, outputs, hold_curvature=False)
    held = _shrinking_errors(unit, outputs)
    assert 3.7 < free[0, 0] / free[1, 0] < 4.3
    assert free[1, 0] < held[1, 0]


@pytest.mark.parametrize("gain", [1.0, 1.5])
def test_single_logistic_unit_eq_164(gain):
    x, t, kernels, (rates,) = _make((4, 1), [(0, 1)], rows=1)
    t = scipy.special.expit(t)
    gradient = expected_gradient(
        x, t, kernels, [rates], unit="logistic", gain=gain, inverted=False
    )
    keep = 1 - rates
    w = kernels[0, 1][:, 0]
    o = scipy.special.expit(gain * np.sum(keep * w * x[0]))
    # The sign of eq. 159, and the gain in the derivative (text after 163).
    ensemble = -gain * (t[0, 0] - o) * keep * x[0]
    slope = gain * o * (1 - o)
    penalty = gain * slope * w * x[0] ** 2 * keep * rates
    np.testing.assert_allclose(
        gradient.ensemble[0, 1][:, 0], ensemble, rtol=1e-12
    )
    np.testing.assert_allclose(
        gradient.penalty[0, 1][:, 0], penalty, rtol=1e-12
    )


def test_eq_165_has_the_gradient_164_only_if_the_curvature_is_held():
    x, t, kernels, (rates,) = _make((4, 1), [(0, 1)], rows=1)
    t = scipy.special.expit(t)
    w, keep = kernels[0, 1][:, 0], 1 - rates
    u = tf.Variable(w)
    with tf.GradientTape() as tape:
        o = tf.sigmoid(tf.reduce_sum(keep * u * x[0]))
        spread = tf.reduce_sum(u**2 * x[0] ** 2 * keep * rates)
        term = 0.5 * o * (1 - o) * spread
    free = tape.gradient(term, u)
    arguments = (x, t, kernels, [rates])
    for hold in (True, False):
        gradient = expected_gradient(
            *arguments, unit="logistic", inverted=False, hold_curvature=hold
        ).penalty[0, 1][:, 0]
        same = np.allclose(gradient, free, rtol=1e-10)
        assert same is not hold


def test_float32():
    x, t, kernels, rates = _make(*CHAIN)
    exact = _over_masks(x, t, kernels, units=rates)
    gradient = expected_gradient(np.float32(x), t, kernels, rates)
    assert gradient.total[0, 1].dtype == tf.float32
    _close(gradient.total, exact, 1e-5)


def test_wrong_arguments():
    x, t, kernels, rates = _make(*CHAIN)
    with pytest.raises(BayesdropError, match=r"`targets`.*\(2, 2\).*\(2, 1\)"):
        expected_gradient(x, t[:, :1], kernels, rates)
    with pytest.raises(BayesdropError, match=r"`unit`.*'softmax'"):
        expected_gradient(x, t, kernels, rates, unit="relu")
