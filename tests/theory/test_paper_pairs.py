# SPDX-License-Identifier: Apache-2.0
"""Pairs of connected units (section 9.6), over all masks.

Unit `j` sends its output to unit `i` by the weight `w`. It has inputs of its
own, so that it and what else reaches `i` are independent, as the publication
takes them to be.
"""

import numpy as np

from tests.theory.masks import all_masks
from tests.theory.orders import assert_order
from tests.theory.orders import bend
from tests.theory.orders import sigma
from tests.theory.orders import slope

RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 1.5, 4)
KERNEL = RNG.normal(size=(4, 2))
# The first two inputs are those of `j`, the others those of the other unit.
KERNEL[2:, 0] = KERNEL[:2, 1] = 0.0
RATES = np.array([0.3, 0.2, 0.4, 0.5, 0.25, 0.45])
KEEP = 1 - RATES
OTHER, BIAS = 0.8, 0.5
MASKS, CHANCES = all_masks(RATES)


def mean(values):
    """Over all masks."""
    return CHANCES @ values


def hidden():
    """O of both units for every mask."""
    return sigma((MASKS[:, :4] * X) @ KERNEL)


def others():
    """S_ij, what reaches unit i from elsewhere, for every mask."""
    return BIAS + OTHER * MASKS[:, 5] * hidden()[:, 1]


def sent():
    """delta_j O_j for every mask."""
    return MASKS[:, 4] * hidden()[:, 0]


def test_eq_121_the_unit_without_its_input():
    """It is right to first order in what varies: the other unit."""

    def error(size):
        total = BIAS + size * MASKS[:, 5] * hidden()[:, 1]
        return mean(sigma(total)) - sigma(mean(total))

    assert_order(error, 2)


def test_eq_122_and_before_179_a_removed_input_to_first_order():
    w_j, rest, p = mean(hidden()[:, 0]), mean(others()), KEEP[4]

    def error(size):
        u = rest + size * p * w_j
        return sigma(rest) - (sigma(u) - slope(u) * size * p * w_j)

    assert_order(error, 2)
    # In print before eq. 179 that is said of W_i itself.
    assert_order(lambda size: sigma(rest) - sigma(rest + size * p * w_j), 1)


def _terms(factor):
    """E(O_i O_j) for a weight, and its expansion with a factor."""
    o_j, s = hidden()[:, 0], others()
    second = mean(factor(s)) * KEEP[4] * mean(o_j**2)

    def error(w):
        exact = mean(sigma(s + w * sent()) * o_j)
        return exact - (mean(sigma(s)) * mean(o_j) + w * second)

    return error


def test_eq_123_has_the_derivative():
    assert_order(_terms(slope), 2)
    # As printed, with the function itself, it is no expansion.
    assert_order(_terms(sigma), 1)


def test_eq_184_the_derivative_of_a_unit_times_its_input():
    o_j, s = hidden()[:, 0], others()
    p_i, p_j = 0.6, KEEP[4]
    first = p_i * p_j * mean(slope(s)) * mean(o_j)
    second = p_i * p_j * mean(bend(s)) * mean(o_j**2)

    def exact(w):
        # delta_i is independent of all of these.
        return p_i * mean(slope(s + w * sent()) * sent())

    assert_order(lambda w: exact(w) - first - w * second, 2)
    assert_order(lambda w: exact(w) - first, 1)


def test_eq_185_and_before_the_derivative_without_an_input():
    """To first order in both weights of unit i."""
    o_j = mean(hidden()[:, 0])
    o_k = hidden()[:, 1]

    def parts(size):
        s = BIAS + size * OTHER * MASKS[:, 5] * o_k
        u = mean(s) + size * KEEP[4] * o_j
        return s, u, bend(u) * size * KEEP[4] * o_j

    def right(size):
        s, u, change = parts(size)
        return mean(slope(s)) - (slope(u) - change)

    def printed(size):
        s, u, change = parts(size)
        return mean(bend(s)) - (bend(u) - change)

    assert_order(right, 2, 1 / 512)
    assert_order(printed, 1)


def test_eq_186_and_187_the_variance_of_what_is_sent():
    o_j, o_k = hidden().T
    p_i, p_j = 0.6, KEEP[4]
    first, second = mean(o_j), mean(o_j**2)
    variance = p_j * second - (p_j * first) ** 2

    def error(size, form):
        w = size
        s = BIAS + size * OTHER * MASKS[:, 5] * o_k
        u = mean(s) + w * p_j * first
        exact = p_i * mean(slope(s + w * sent()) * sent())
        plain = p_i * p_j * first * slope(u)
        if form == 186:
            inner = mean(bend(s)) * second - bend(u) * p_j * first**2
            return exact - (plain + p_i * p_j * w * inner)
        if form == 187:
            return exact - (plain + p_i * bend(u) * w * variance)
        return exact - plain

    assert_order(lambda size: error(size, 186), 2, 1 / 512)
    assert_order(lambda size: error(size, 187), 2, 1 / 512)
    assert_order(lambda size: error(size, None), 1)
