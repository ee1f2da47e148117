# SPDX-License-Identifier: Apache-2.0
"""Geometric means of ensembles, their bounds and their approximation."""

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.theory import nwgm
from keras_bayesdrop.theory import nwgm_approximation
from keras_bayesdrop.theory import nwgm_bounds
from keras_bayesdrop.theory import wgm
from keras_bayesdrop.theory import wgm_bounds
from tests.theory.masks import all_masks
from tests.theory.masks import run_all

# Rounding of sums of some ten terms in float64.
ROUNDING = 1e-12


def _product(outputs, weights):
    """G by its definition."""
    return np.prod(np.asarray(outputs) ** weights[:, None], axis=0)


def _ensembles(count=20_000, members=4, seed=0):
    """Outputs [members, count], and weights that differ by ensemble."""
    rng = np.random.default_rng(seed)
    # Some low, some high, some mixed.
    center, width = rng.normal(0, 3, count), rng.exponential(2, count)
    inputs = center + width * rng.normal(size=(members, count))
    # Further out, float64 has no more digits for the complement.
    outputs = scipy.special.expit(np.clip(inputs, -15, 15))
    weights = rng.dirichlet(np.full(members, 0.7), count).T
    return outputs, weights


def _statistics(outputs, weights):
    """E, V, minimum and maximum."""
    mean = np.sum(weights * outputs, 0)
    variance = np.sum(weights * (outputs - mean) ** 2, 0)
    return mean, variance, outputs.min(0), outputs.max(0)


def _g(outputs, weights):
    return np.exp(np.sum(weights * np.log(outputs), 0))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-14)]
)
def test_wgm_eq_35_and_nwgm_eq_37_by_definition(dtype, tolerance):
    rng = np.random.default_rng(1)
    outputs, weights = rng.uniform(size=(5, 7)), rng.dirichlet(np.ones(5))
    g, rest = _product(outputs, weights), _product(1 - outputs, weights)
    cast = outputs.astype(dtype)
    geometric = wgm(cast, weights)
    assert geometric.dtype == dtype
    np.testing.assert_allclose(geometric, g, rtol=tolerance)
    np.testing.assert_allclose(
        nwgm(cast.T, weights, axis=1), g / (g + rest), rtol=tolerance
    )
    np.testing.assert_allclose(
        wgm(cast, 3 * weights), wgm(cast, weights), rtol=tolerance
    )
    np.testing.assert_allclose(
        wgm(cast), np.prod(outputs, 0) ** 0.2, rtol=tolerance
    )


@pytest.mark.parametrize("scaled", [True, False])
def test_nwgm_of_a_logistic_unit_is_that_of_the_mean_input_eq_33_39(scaled):
    rng = np.random.default_rng(2)
    x, kernel = rng.normal(size=6), rng.normal(size=(6, 3))
    rates = rng.uniform(0.1, 0.9, 6)
    (_, inputs), chances = run_all(x, {(0, 1): kernel}, [rates], scale=scaled)
    normalised = nwgm(scipy.special.expit(inputs), chances)
    weights = kernel if scaled else kernel * (1 - rates)[:, None]
    np.testing.assert_allclose(
        normalised, scipy.special.expit(x @ weights), rtol=1e-12
    )
    # So is any function of the input in its place, eq. 40 and 41.
    squares = 0.1 * np.asarray(inputs) ** 2
    np.testing.assert_allclose(
        nwgm(scipy.special.expit(squares), chances),
        scipy.special.expit(chances @ squares),
        rtol=1e-12,
    )


@pytest.mark.parametrize("connections", [True, False])
def test_nwgm_of_softmax_is_that_of_the_mean_inputs_eq_44_to_47(connections):
    rng = np.random.default_rng(3)
    x, kernel = rng.normal(size=3), rng.normal(size=(3, 3))
    rates = rng.uniform(0.1, 0.9, (3, 3) if connections else 3)
    noise = {"connections": {(0, 1): rates}} if connections else {}
    if not connections:
        noise = {"units": [rates]}
    (_, inputs), chances = run_all(x, {(0, 1): kernel}, **noise)
    outputs = scipy.special.softmax(inputs, axis=-1)
    normalised = nwgm(outputs, chances, classes=True)
    g = _product(outputs, chances)
    np.testing.assert_allclose(normalised, g / g.sum(), rtol=1e-12)
    np.testing.assert_allclose(
        normalised, scipy.special.softmax(x @ kernel), rtol=1e-12
    )


def test_extreme_outputs():
    np.testing.assert_array_equal(wgm([0.0, 0.5]), 0.0)
    np.testing.assert_array_equal(nwgm([0.0, 0.5]), 0.0)
    np.testing.assert_array_equal(nwgm([1.0, 0.5]), 1.0)
    assert np.isnan(nwgm([0.0, 1.0]))
    # Members of probability zero do not count.
    np.testing.assert_allclose(
        nwgm([0.0, 1.0, 0.3], [0.0, 0.0, 1.0]), 0.3, rtol=1e-6
    )


def test_order_of_the_means_eq_77_81_and_82():
    outputs, weights = _ensembles()
    mean, _, low, high = _statistics(outputs, weights)
    for i in range(0, outputs.shape[1], 40):
        g = float(wgm(outputs[:, i], weights[:, i]))
        n = float(nwgm(outputs[:, i], weights[:, i]))
        assert g <= mean[i] + ROUNDING
        assert g <= n + ROUNDING
        if high[i] <= 0.5:
            assert n <= mean[i] + ROUNDING
        if low[i] >= 0.5:
            assert n >= mean[i] - ROUNDING


def test_wgm_bounds_eq_78_and_79_hold():
    outputs, weights = _ensembles()
    statistics = _statistics(outputs, weights)
    mean, variance, least, most = statistics
    g = _g(outputs, weights)
    lower, upper = (np.asarray(b) for b in wgm_bounds(*statistics))
    assert np.all(lower <= g + ROUNDING)
    assert np.all(g <= upper + ROUNDING)
    # They are within the bounds of eq. 78 and of eq. 79.
    assert np.all(upper <= mean - variance / (2 * most) + ROUNDING)
    assert np.all(lower >= mean - variance / (2 * least) - ROUNDING)
    apart = variance > 1e-8
    mean, variance, least, most = (each[apart] for each in statistics)
    lower, upper = lower[apart], upper[apart]
    left = variance * (most - upper) / (2 * most * (most - mean))
    right = variance * (lower - least) / (2 * least * (mean - least))
    np.testing.assert_allclose(left, mean - upper, rtol=1e-5)
    np.testing.assert_allclose(right, mean - lower, rtol=1e-5)
    # They are useful: their gap is a part of the range.
    assert np.median((upper - lower) / (most - least)) < 0.5


def test_lower_bound_of_eq_79_lacks_a_factor_in_print():
    """Without the factor the bound is looser than eq. 78."""
    outputs, weights = _ensembles()
    statistics = _statistics(outputs, weights)
    apart = statistics[1] > 1e-8
    mean, variance, _, most = (each[apart] for each in statistics)
    g = _g(outputs, weights)[apart]
    printed = (most - g) / (2 * most) * variance
    plain = variance / (2 * most)
    assert np.mean(printed < plain) > 0.99
    right = printed / (most - mean)
    assert np.all(right >= plain - ROUNDING)


def test_nwgm_bounds_eq_78_to_82_hold():
    outputs, weights = _ensembles()
    statistics = _statistics(outputs, weights)
    g, rest = _g(outputs, weights), _g(1 - outputs, weights)
    n = g / (g + rest)
    low, high = (np.asarray(b) for b in nwgm_bounds(*statistics))
    assert np.all(low <= n + ROUNDING)
    assert np.all(n <= high + ROUNDING)
    assert np.all(low >= statistics[2] - ROUNDING)
    assert np.all(high <= statistics[3] + ROUNDING)
    all_low, all_high = statistics[3] <= 0.5, statistics[2] >= 0.5
    assert min(all_low.sum(), all_high.sum()) > 1000
    mean = statistics[0]
    assert np.all(high[all_low] <= mean[all_low] + ROUNDING)
    assert np.all(low[all_high] >= mean[all_high] - ROUNDING)


def test_bounds_of_outputs_that_are_equal():
    for bounds in (wgm_bounds, nwgm_bounds):
        low, high = bounds(0.3, 0.0, 0.3, 0.3)
        np.testing.assert_allclose([low, high], 0.3, rtol=1e-6)


def test_the_bounds_of_eq_87_are_none():
    outputs, weights = np.array([[1e-6], [0.9]]), np.full((2, 1), 0.5)
    statistics = _statistics(outputs, weights)
    mean, variance = statistics[0][0], statistics[1][0]
    n = float(nwgm(outputs)[0])
    spread = mean * (1 - mean)
    for printed in (
        variance * abs(1 - 2 * mean) / (1 - 2 * variance),
        spread * abs(1 - 2 * mean) / (1 - 2 * spread),
        2 * spread * abs(1 - 2 * mean),
    ):
        assert abs(mean - n) > 8 * printed
    low, high = nwgm_bounds(*statistics)
    assert low <= n <= high


@pytest.mark.parametrize("mean", [0.05, 0.3, 0.62, 0.9])
def test_approximation_eq_202_in_place_of_85_96_and_97(mean):
    """Exact for a small variance, where eq. 87 has half or less."""
    deviations = np.array([-0.7, 0.1, 0.6])
    errors = []
    for size in (0.02, 0.01):
        outputs = mean + mean * (1 - mean) * size * deviations
        variance = np.var(outputs)
        exact = float(nwgm(outputs))
        errors.append(abs(float(nwgm_approximation(mean, variance)) - exact))
        leading = variance * (1 - 2 * mean) / (2 * mean * (1 - mean))
        np.testing.assert_allclose(mean - exact, leading, rtol=0.1)
        printed = variance * (1 - 2 * mean) / (1 - 2 * variance)
        assert abs(printed) < 0.55 * abs(leading)
    # What is left out is of third order: an eighth, where theirs is a fourth.
    assert errors[1] < errors[0] / 7


def test_approximation_near_one_eq_202_in_place_of_205_to_211():
    outputs = np.array([0.93, 0.97, 0.99])
    mean, variance = outputs.mean(), outputs.var()
    exact = float(nwgm(outputs))
    approximate = float(nwgm_approximation(mean, variance))
    printed = (2 * mean - variance) / (2 - 2 * variance)
    assert abs(approximate - exact) < 0.3 * abs(printed - exact)


def test_approximation_at_the_example_of_eq_88():
    outputs = [0.622459, 0.731059]
    np.testing.assert_allclose(wgm(outputs), 0.674577, atol=1e-6)
    np.testing.assert_allclose(nwgm(outputs), 0.679179, atol=1e-6)
    approximation = nwgm_approximation(np.mean(outputs), np.var(outputs))
    np.testing.assert_allclose(approximation, 0.679179, atol=3e-5)


def test_eq_57_and_58_hold_for_cross_entropy_and_not_for_squares():
    outputs, weights = _ensembles(members=3)
    g = _g(outputs, weights)
    means = {"wgm": g, "nwgm": g / (g + _g(1 - outputs, weights))}
    targets = np.random.default_rng(5).uniform(size=outputs.shape[1])

    def entropy(o, t):
        return -t * np.log(o) - (1 - t) * np.log1p(-o)

    def squares(o, t):
        return (t - o) ** 2 / 2

    for each in means.values():
        for t in (np.zeros_like(targets), np.ones_like(targets), targets):
            mean = np.sum(weights * entropy(outputs, t), 0)
            assert np.all(entropy(each, t) <= mean + 1e-9)
        t = np.ones_like(targets)
        mean = np.sum(weights * squares(outputs, t), 0)
        assert np.any(squares(each, t) > mean + 0.1)


def test_masks_have_the_right_probabilities():
    masks, chances = all_masks([0.25, 0.5])
    np.testing.assert_array_equal(masks[1], [0, 1])
    np.testing.assert_allclose(chances, [0.125, 0.125, 0.375, 0.375])


def test_wrong_arguments():
    with pytest.raises(BayesdropError, match=r"`weights`.*\(2,\).*\(3,\)"):
        wgm([0.2, 0.3], [1.0, 1.0, 1.0])
    with pytest.raises(BayesdropError, match=r"`outputs`.*axis of members"):
        nwgm(0.5)
