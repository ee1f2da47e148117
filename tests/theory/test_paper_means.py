# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and geometric means of logistic units (4, 7, 8, appendix B).

With `E` and `V` the mean and variance of outputs `O` of probabilities `P`, and

    G = prod O^P,    G' = prod (1 - O)^P,    NWGM = G / (G + G')
"""

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop.moments import activations
from keras_bayesdrop.theory import nwgm
from keras_bayesdrop.theory import nwgm_approximation
from tests.theory.masks import all_masks
from tests.theory.orders import GAIN
from tests.theory.orders import C
from tests.theory.orders import assert_order
from tests.theory.orders import sigma

CHANCES = np.array([0.5, 0.2, 0.3])
# Deviations whose mean is zero.
DEVIATIONS = np.array([-0.6, 0.3, 0.8])
CENTER = 0.35


def _geometric(outputs):
    return np.prod(outputs**CHANCES)


def _spread(outputs):
    return CHANCES @ (outputs - CHANCES @ outputs) ** 2


def test_eq_33_has_the_root_once():
    """2^n subnetworks of equal weight."""
    rng = np.random.default_rng(0)
    weighted = rng.normal(size=4)
    masks, _ = all_masks(np.full(4, 0.5))
    inputs = masks @ weighted
    exact = nwgm(sigma(inputs))
    count = len(inputs)
    inner = np.exp(-GAIN * inputs.sum() / count)
    np.testing.assert_allclose(1 / (1 + C * inner), exact, rtol=1e-12)
    np.testing.assert_allclose(sigma(weighted.sum() / 2), exact, rtol=1e-12)
    printed = 1 / (1 + C * inner ** (1 / count))
    assert abs(printed - exact) > 0.1


@pytest.mark.parametrize(("left", "right"), [(0.2, 0.7), (0.7, 0.2)])
def test_eq_61_to_66_a_logistic_function_through_two_points(left, right):
    u, v = -0.4, 1.1
    odds = np.array([(1 - left) / left, (1 - right) / right])
    c = odds[0] ** (v / (v - u)) * odds[1] ** (-u / (v - u))
    gain = np.log(odds[0] / odds[1]) / (v - u)
    x = np.linspace(-3, 3, 61)
    by_points = 1 / (
        1 + odds[0] ** ((v - x) / (v - u)) * odds[1] ** ((x - u) / (v - u))
    )
    outputs = sigma(x, gain, c)
    np.testing.assert_allclose(by_points, outputs, rtol=1e-12)
    np.testing.assert_allclose(sigma(u, gain, c), left, rtol=1e-12)
    np.testing.assert_allclose(sigma(v, gain, c), right, rtol=1e-12)
    # It rises or falls strictly as it is NOT constant (print lacks the not).
    assert np.all(np.sign(np.diff(outputs)) == np.sign(right - left))


def test_after_eq_66_a_constant_does_not_rise():
    u, v, value = -0.4, 1.1, 0.3
    odds = (1 - value) / value
    x = np.linspace(-3, 3, 61)
    by_odds = 1 / (
        1 + odds ** ((v - x) / (v - u)) * odds ** ((x - u) / (v - u))
    )
    np.testing.assert_allclose(by_odds, value, rtol=1e-12)


@pytest.mark.parametrize("stddev", [0.2, 1.0, 3.0])
def test_eq_74_is_the_spread_of_the_input(stddev):
    """sigma_S of eq. 72 and 74, not sigma."""
    s = np.linspace(-10, 10, 200_001) * stddev
    density = np.exp(-(s**2) / (2 * stddev**2))
    exact = np.maximum(s, 0) @ density / density.sum()
    closed_form = stddev / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(closed_form, exact, rtol=1e-6)
    ours = activations.relu(np.float64(0.0), np.float64(stddev**2))
    np.testing.assert_allclose(ours[0], exact, rtol=1e-6)


@pytest.mark.parametrize("center", [0.2, 0.45, 0.8])
def test_eq_97_has_the_other_sign_than_96(center):
    """And as eq. 85, both are of the right size only with 1 / (2 E (1 - E))."""

    def rest(size):
        outputs = center + size * center * (1 - center) * DEVIATIONS
        variance = _spread(outputs)
        other = float(nwgm(1 - outputs, CHANCES))
        leading = variance * (2 * center - 1) / (2 * center * (1 - center))
        return (1 - center) - other, leading, variance

    assert_order(lambda size: rest(size)[0] - rest(size)[1], 3)
    exact, _, variance = rest(1 / 64)
    printed = variance * (1 - 2 * center) / (1 - 2 * variance)
    assert np.sign(printed) != np.sign(exact)
    # With the sign of eq. 85: half of it or less.
    assert abs(printed) < 0.52 * abs(exact)


def test_eq_195_and_196_deviations_from_the_mean():
    outputs = CENTER + 0.3 * DEVIATIONS
    np.testing.assert_allclose(CHANCES @ outputs, CENTER, rtol=1e-12)
    off = outputs - CENTER
    g, rest = _geometric(outputs), _geometric(1 - outputs)
    np.testing.assert_allclose(
        CENTER * _geometric(1 + off / CENTER), g, rtol=1e-12
    )
    np.testing.assert_allclose(
        (1 - CENTER) * _geometric(1 - off / (1 - CENTER)), rest, rtol=1e-12
    )
    # With the minus of print it is not G.
    assert abs(CENTER * _geometric(1 - off / CENTER) / g - 1) > 0.03


def test_eq_198_counts_every_pair_once():
    def error(size, times):
        off = size * DEVIATIONS / CENTER
        pairs = np.outer(CHANCES * off, CHANCES * off)
        once = np.triu(pairs, 1).sum()
        own = CHANCES * (CHANCES - 1) / 2 @ off**2
        exact = _geometric(CENTER + size * DEVIATIONS)
        return exact - CENTER * (1 + own + times * once)

    assert_order(lambda size: error(size, 1), 3)
    assert_order(lambda size: error(size, 2), 2)


def test_eq_199_to_201_half_the_variance():
    def error(size, form):
        outputs = CENTER + size * DEVIATIONS
        variance = _spread(outputs)
        g, rest = _geometric(outputs), _geometric(1 - outputs)
        if form == 199:
            return g - (CENTER - variance / (2 * CENTER))
        if form == 200:
            return rest - (1 - CENTER - variance / (2 * (1 - CENTER)))
        if form == 201:
            below = 2 * CENTER * (1 - CENTER)
            return g + rest - (1 - variance / below)
        return g - CENTER * (1 - variance / CENTER**2)

    for form in (199, 200, 201):
        assert_order(lambda size, form=form: error(size, form), 3, 1 / 256)
    # The middle of eq. 199 as printed lacks the half.
    assert_order(lambda size: error(size, None), 2)


HIGH = np.array([0.93, 0.97, 0.99])


def test_eq_204_and_205_near_one():
    center, variance = CHANCES @ HIGH, _spread(HIGH)
    g, rest = _geometric(HIGH), _geometric(1 - HIGH)
    np.testing.assert_allclose(center - variance / 2, g, rtol=1e-4)
    right = 1 - center - variance / (2 * (1 - center))
    printed = 1 - center - variance / 2
    assert abs(right - rest) < 0.3 * abs(printed - rest)
    # So eq. 206 and 207 are off too, and 209 and 210 are no bounds.
    exact = float(nwgm(HIGH, CHANCES))
    assert abs(center - exact) > 5 * variance / (2 * (1 - variance))


def test_eq_207_to_210_are_replaced_by_202():
    center, variance = CHANCES @ HIGH, _spread(HIGH)
    exact = float(nwgm(HIGH, CHANCES))
    approximate = float(nwgm_approximation(center, variance))
    printed = (2 * center - variance) / (2 - 2 * variance)
    assert abs(approximate - exact) < 0.3 * abs(printed - exact)


def test_eq_211_is_the_complement_in_print():
    outputs = 1 - HIGH
    center, variance = CHANCES @ outputs, _spread(outputs)
    exact = float(nwgm(outputs, CHANCES))
    printed = (1 - center - variance / 2) / (1 - variance)
    turned = (center - variance / 2) / (1 - variance)
    np.testing.assert_allclose(printed + turned, 1.0, rtol=1e-12)
    assert abs(printed - exact) > 0.9
    assert abs(turned - exact) < 0.02
    better = float(nwgm_approximation(center, variance))
    assert abs(better - exact) < 0.3 * abs(turned - exact)


def test_eq_213_to_216_powers_of_outputs():
    """Eq. 214 divides by the square of the output; eq. 216 has a logarithm."""
    inputs = np.array([-1.2, 0.3, 0.9])
    outputs = sigma(inputs)
    exact = float(nwgm(outputs**2, CHANCES))
    top = (1 - outputs) * (1 + outputs)
    middle = 1 / (1 + _geometric(top / outputs**2))
    last = C * np.exp(-GAIN * CHANCES @ inputs)
    last = 1 / (1 + last * _geometric(2 + C * np.exp(-GAIN * inputs)))
    np.testing.assert_allclose([middle, last], exact, rtol=1e-12)
    assert abs(1 / (1 + _geometric(top / outputs)) - exact) > 0.1
    cubes = (1 - outputs) * (1 + outputs + outputs**2) / outputs**3
    np.testing.assert_allclose(
        1 / (1 + _geometric(cubes)), nwgm(outputs**3, CHANCES), rtol=1e-12
    )
    odds = C * outputs / (1 - outputs)
    np.testing.assert_allclose(np.log(odds) / GAIN, inputs, rtol=1e-12)
    assert np.abs(odds / GAIN - inputs).min() > 0.1


def test_eq_217_and_218_around_one_half():
    off = DEVIATIONS / 2

    def inverse(outputs):
        return (np.log(C) + scipy.special.logit(outputs)) / GAIN

    def error(size):
        near = (np.log(C) + 4 * size * off) / GAIN
        return inverse(0.5 + size * off) - near

    def of_squares(size):
        near = ((np.log(C) + 4 * size * off) / GAIN) ** 2
        return CHANCES @ (inverse(0.5 + size * off) ** 2 - near)

    assert_order(error, 3)
    assert_order(of_squares, 3, 1 / 1024)
