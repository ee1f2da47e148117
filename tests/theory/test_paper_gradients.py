# SPDX-License-Identifier: Apache-2.0
"""Expected gradients of deep logistic networks (11.5), over all masks.

Exact gradients are derivatives of the mean error by a complex step: not by any
formula of backpropagation.
"""

import numpy as np

from tests.theory.masks import all_masks
from tests.theory.orders import GAIN
from tests.theory.orders import assert_order
from tests.theory.orders import bend
from tests.theory.orders import sigma
from tests.theory.orders import slope

RNG = np.random.default_rng(3)
SIZES = (2, 2, 2, 1)
X = RNG.uniform(0.5, 1.5, SIZES[0])
KERNELS = [RNG.normal(size=SIZES[n : n + 2]) for n in range(3)]
BIASES = [RNG.normal(size=size) for size in SIZES[1:]]
TARGET = 0.8
RATES = np.array([0.3, 0.2, 0.45, 0.4, 0.25, 0.35])
KEEP = np.split(1 - RATES, 3)
MASKS, CHANCES = all_masks(RATES)
STEP = 1e-30


def forward(kernels, masks, biases=None):
    """Inputs and outputs of every layer, the first one's outputs only."""
    outputs, inputs = [X], [None]
    for mask, kernel, bias in zip(
        masks, kernels, biases or BIASES, strict=True
    ):
        inputs.append((mask * outputs[-1]) @ kernel + bias)
        outputs.append(sigma(inputs[-1]))
    return inputs, outputs


def over_masks(kernels, biases=None):
    """The same for every mask."""
    return forward(kernels, np.split(MASKS, 3, axis=1), biases)


def error(output):
    return -TARGET * np.log(output) - (1 - TARGET) * np.log(1 - output)


def mean(values):
    return CHANCES @ values


def gradient(loss, kernels, layer):
    """Derivative of a loss of kernels by those of a layer."""
    derivative = np.zeros_like(kernels[layer])
    for place in np.ndindex(derivative.shape):
        moved = [each.astype(complex) for each in kernels]
        moved[layer][place] += 1j * STEP
        derivative[place] = np.imag(loss(moved)) / STEP
    return derivative


def expected(kernels, layer, biases=None):
    """The expected gradient of the dropout network."""

    def loss(moved):
        return mean(error(over_masks(moved, biases)[1][-1][:, 0]))

    return gradient(loss, kernels, layer)


def scaled(*factors):
    return [f * kernel for f, kernel in zip(factors, KERNELS, strict=True)]


def moments(kernels, layer, biases=None):
    """E(O), E(O^2) and Var(delta O) of a layer's units."""
    outputs = over_masks(kernels, biases)[1][layer]
    first, second = mean(outputs), mean(outputs**2)
    keep = KEEP[layer]
    return first, second, keep * second - (keep * first) ** 2


def ensemble(kernels, biases=None):
    """U and W of all layers, and the gradient of the top layer."""
    u, w = forward(kernels, KEEP, biases)
    top = -GAIN * (TARGET - w[3][0]) * KEEP[2] * w[2]
    return u, w, top


def test_eq_168_to_171_gradient_of_the_deterministic_network():
    def loss(moved):
        return error(forward(moved, KEEP)[1][-1][0])

    u, w, top = ensemble(KERNELS)
    np.testing.assert_allclose(
        gradient(loss, KERNELS, 2)[:, 0], top, rtol=1e-12
    )
    back = -GAIN * (TARGET - w[3][0]) * KERNELS[2][:, 0]
    back = back * KEEP[2] * slope(u[2])
    np.testing.assert_allclose(
        gradient(loss, KERNELS, 1),
        np.outer(KEEP[1] * w[1], back),
        rtol=1e-12,
    )


def test_eq_176_takes_the_unit_from_the_input_of_the_output():
    """S_ij = S_i^T - ..., where print has S_i^l."""
    inputs, outputs = over_masks(KERNELS)
    sent = np.split(MASKS, 3, axis=1)[2] * outputs[2]
    rest = inputs[3] - KERNELS[2][:, 0] * sent
    gradients = -GAIN * (TARGET - sigma(rest + KERNELS[2][:, 0] * sent)) * sent
    np.testing.assert_allclose(
        mean(gradients), expected(KERNELS, 2)[:, 0], rtol=1e-12
    )


def test_eq_179_and_181_the_top_layer_to_first_order():
    def off(size, form):
        kernels = scaled(size, size, size)
        u, w, top = ensemble(kernels)
        _, second, variance = moments(kernels, 2)
        w_ij = kernels[2][:, 0]
        exact = expected(kernels, 2)[:, 0]
        curve = slope(u[3])
        if form == 179:
            inputs, outputs = over_masks(kernels)
            sent = np.split(MASKS, 3, axis=1)[2] * outputs[2]
            inner = mean(slope(inputs[3] - w_ij * sent)) * KEEP[2] * second
            inner -= curve * (KEEP[2] * w[2]) ** 2
            return exact - (top + GAIN * w_ij * inner)
        if form == 181:
            return exact - (top + GAIN * w_ij * curve * variance)
        return exact - (top + form * w_ij * curve * variance)

    assert_order(lambda size: off(size, 179), 2)
    assert_order(lambda size: off(size, 181), 2)
    # Without a penalty, or with that of print, which lacks the gain.
    assert_order(lambda size: off(size, 0.0), 1)
    assert_order(lambda size: off(size, 1.0), 1)


def test_eq_182_and_before_units_near_zero_and_one():
    """There E(O^2) ~ W, so that A ~ gain sigma' p W (1 - p W)."""
    biases = [BIASES[0], np.array([-8.0, 8.0]), BIASES[2]]
    kernels = scaled(1.0, 1.0, 1 / 64)
    u, w, top = ensemble(kernels, biases)
    sent = KEEP[2] * w[2]
    exact = expected(kernels, 2, biases)[:, 0]
    a = (exact - top)[1] / kernels[2][1, 0]
    right = (GAIN * slope(u[3]) * sent * (1 - sent))[1]
    np.testing.assert_allclose(right, a, rtol=0.02)
    assert abs(right / GAIN / a - 1) > 0.3
    assert abs((exact - top)[0]) < 1e-4 * abs((exact - top)[1])


def _back(kernels):
    """Eq. 183 with delta_i once: [j, i] for the middle layer."""
    inputs, outputs = over_masks(kernels)
    masks = np.split(MASKS, 3, axis=1)
    error_signal = -GAIN * (TARGET - mean(outputs[3][:, 0]))
    sent = masks[1] * outputs[1]
    reaches = masks[2] * slope(inputs[2])
    both = (CHANCES[:, None] * sent).T @ reaches
    return error_signal * kernels[2][:, 0] * both


def test_eq_183_has_the_mask_of_the_unit_once():
    def off(size, extra):
        kernels = scaled(1.0, 1.0, size)
        return expected(kernels, 1) - extra * _back(kernels)

    # The gradient is of first order in the top weights.
    assert_order(lambda size: off(size, 1.0), 2)
    assert_order(lambda size: off(size, KEEP[2]), 1)
    kernels = scaled(1.0, 1.0, 1 / 256)
    np.testing.assert_allclose(_back(kernels), expected(kernels, 1), rtol=0.02)


def test_eq_188_the_penalty_of_deeper_weights():
    """Top weights so small that the error does not depend on the unit."""

    def off(size, penalty):
        kernels = scaled(size, size, size**2)
        u, w, _ = ensemble(kernels)
        variance = moments(kernels, 1)[2]
        back = -GAIN * (TARGET - w[3][0]) * kernels[2][:, 0] * KEEP[2]
        plain = np.outer(KEEP[1] * w[1], back * slope(u[2]))
        a = np.outer(variance, back * bend(u[2]))
        return expected(kernels, 1) - (plain + penalty * kernels[1] * a)

    assert_order(lambda size: off(size, 1.0), 4)
    assert_order(lambda size: off(size, 0.0), 3)
