# SPDX-License-Identifier: Apache-2.0
"""The risk-coverage curve, and the areas under it."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError

ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.5, 2.0]), st.integers(0, 3)),
    min_size=1,
    max_size=6,
)


def by_all_orders(uncertainty, loss):
    """Mean of the curves over all orders that sort the uncertainty."""
    curves = []
    for order in itertools.permutations(range(len(loss))):
        if all(
            uncertainty[a] <= uncertainty[b]
            for a, b in itertools.pairwise(order)
        ):
            sums = np.cumsum([loss[i] for i in order])
            curves.append(sums / np.arange(1, len(loss) + 1))
    return np.mean(curves, axis=0)


@given(ROWS)
def test_is_the_mean_over_the_orders_of_ties(rows):
    uncertainty, loss = zip(*rows, strict=True)
    curve = metrics.risk_coverage(loss, uncertainty)
    np.testing.assert_allclose(curve.risk, by_all_orders(uncertainty, loss))
    np.testing.assert_allclose(
        curve.coverage, np.arange(1, len(rows) + 1) / len(rows)
    )
    np.testing.assert_array_equal(curve.threshold, np.sort(uncertainty))
    assert metrics.aurc(loss, uncertainty) == pytest.approx(curve.risk.mean())


@given(ROWS)
def test_excess_is_over_the_best_of_all_orders(rows):
    uncertainty, loss = zip(*rows, strict=True)
    best = min(
        np.mean(np.cumsum(order) / np.arange(1, len(loss) + 1))
        for order in itertools.permutations(loss)
    )
    excess = metrics.excess_aurc(loss, uncertainty)
    assert excess == pytest.approx(
        metrics.aurc(loss, uncertainty) - best, abs=1e-12
    )
    assert excess >= 0


def test_constant_uncertainty_tells_nothing():
    loss = [0, 1, 0, 1, 1]
    curve = metrics.risk_coverage(loss, [1] * 5)
    np.testing.assert_allclose(curve.risk, 0.6)
    assert metrics.aurc(loss, [1] * 5) == pytest.approx(0.6)


def test_all_right_all_wrong_and_one_row():
    u = [0.1, 0.3, 0.2]
    assert metrics.aurc([0, 0, 0], u) == 0.0
    assert metrics.aurc([True, True, True], u) == 1.0
    assert metrics.excess_aurc([1, 1, 1], u) == 0.0
    one = metrics.risk_coverage([[2.0]], [[0.5]])
    assert one.coverage == one.threshold * 2 == [1.0]
    assert one.risk == [2.0]
    assert pickle.loads(pickle.dumps(one)).risk == [2.0]


def test_bad_input():
    with pytest.raises(BayesdropError, match=r"`loss`.*\(2,\).*\(3,\)"):
        metrics.risk_coverage([0, 1, 0], [0.1, 0.2])
    with pytest.raises(BayesdropError, match=r"`uncertainty`.*\(2, 2\)"):
        metrics.risk_coverage([0, 1], np.ones((2, 2)))
    with pytest.raises(BayesdropError, match=r"at least one row.*\(0,\)"):
        metrics.aurc([], [])
    with pytest.raises(NonFiniteError, match=r"`loss`.*1 values"):
        metrics.aurc([0, np.nan], [0.1, 0.2])
    with pytest.raises(NonFiniteError, match=r"`uncertainty`.*1 values"):
        metrics.excess_aurc([0, 1], [0.1, np.inf])
    with pytest.raises(BayesdropError, match=r"numbers.*<U1"):
        metrics.aurc([0], ["a"])
