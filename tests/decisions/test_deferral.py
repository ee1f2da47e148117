# SPDX-License-Identifier: Apache-2.0
"""Deferral of unsure rows."""

import math
import pickle

import numpy as np
import pytest

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Regression
from tests.decisions import cases


@pytest.fixture
def p():
    return cases.predictive("classification", cases.classes(rows=40))


def test_the_default_is_the_expected_error(p):
    d = p.defer(budget=5)
    wrong = 1 - p.mean.max(axis=1)
    assert d.by == "expected_loss"
    np.testing.assert_array_equal(d.uncertainty, wrong)
    assert list(d.rows) == sorted(range(40), key=lambda i: -wrong[i])[:5]
    assert list(np.flatnonzero(d.mask)) == sorted(d.rows)
    assert sorted([*d.rows, *d.kept]) == list(range(40))
    assert d.coverage == 35 / 40
    assert d.threshold == wrong[d.kept].max()
    assert d.risk is d.full_risk is d.curve is d.residual_risk is None
    assert "5 of 40" in repr(d)


def test_a_threshold_repeats_what_a_budget_did(p):
    d = p.defer(budget=0.25)
    assert len(d.rows) == 10
    again = p.defer(threshold=d.threshold)
    np.testing.assert_array_equal(again.rows, d.rows)
    assert again.threshold == d.threshold


@pytest.mark.parametrize(
    ("budget", "count"),
    [
        (0, 0),
        (1, 1),
        (99, 40),
        (0.0, 0),
        (1.0, 40),
        (0.05, 2),
        (0.06, 2),
        # 0.7 * 40 is 28.0 and 0.575 * 40 is 22.999999999999996.
        (0.7, 28),
        (0.575, 23),
        (np.float32(0.5), 20),
        (np.int64(3), 3),
    ],
)
def test_budget_is_a_share_or_a_number(p, budget, count):
    d = p.defer(budget=budget, y=np.zeros(40, int))
    assert len(d.rows) == count
    assert (d.threshold == -math.inf) == (count == 40)
    assert math.isnan(d.risk) == (count == 40)


def test_ties_go_to_the_earlier_row(p):
    u = np.array([1.0, 2.0] * 20)
    assert list(p.defer(budget=3, by=u).rows) == [1, 3, 5]
    d = p.defer(budget=22, by=u)
    assert list(d.rows) == [*range(1, 40, 2), 0, 2]
    assert d.threshold == 1.0
    assert d.by == "given"
    assert list(p.defer(threshold=1.0, by=u).rows) == list(range(1, 40, 2))
    assert len(p.defer(threshold=2.0, by=u).rows) == 0


@pytest.mark.parametrize(
    "name",
    [
        "predictive_entropy",
        "expected_entropy",
        "mutual_information",
        "variation_ratio",
    ],
)
def test_by_information(p, name):
    d = p.defer(budget=7, by=name)
    assert d.by == name
    assert list(d.rows) == list(np.argsort(-getattr(p, name), stable=True)[:7])


@pytest.mark.parametrize("name", ["std", "epistemic", "aleatoric", "total"])
def test_by_moments_averages_over_a_row(p, name):
    d = p.defer(budget=1, by=name)
    np.testing.assert_allclose(d.uncertainty, getattr(p, name).mean(axis=1))


def test_risk_of_classes(p):
    y = np.random.default_rng(1).integers(0, 3, 40)
    d = p.defer(budget=0.5, y=y)
    wrong = p.mean.argmax(axis=1) != y
    assert d.full_risk == wrong.mean()
    assert d.risk == wrong[d.kept].mean()
    assert 0 < d.risk < 1
    assert d.residual_risk == pytest.approx(wrong[d.kept].sum() / 40)
    # The curve by brute force: the risk of the k surest rows, for every k.
    order = np.argsort(d.uncertainty)
    brute = [wrong[order[: k + 1]].mean() for k in range(40)]
    np.testing.assert_allclose(d.curve.risk, brute)
    here = np.searchsorted(d.curve.coverage, d.coverage)
    assert d.curve.risk[here] == pytest.approx(d.risk)
    assert d.curve.threshold[here] == d.threshold
    same = p.defer(budget=0.5, loss=wrong)
    assert (same.risk, same.full_risk) == (d.risk, d.full_risk)


def test_risk_of_labels_and_of_targets():
    rng = np.random.default_rng(0)
    samples = rng.uniform(size=(6, 10, 2))
    y = rng.integers(0, 2, (10, 2))
    p = cases.predictive("binary", samples)
    d = p.defer(threshold=0.45, y=y)
    np.testing.assert_allclose(
        d.uncertainty, np.minimum(p.mean, 1 - p.mean).mean(axis=1)
    )
    wrong = ((p.mean >= 0.5) != y).mean(axis=1)
    assert d.risk == pytest.approx(wrong[d.uncertainty <= 0.45].mean())
    p = cases.predictive(Regression(noise_precision=4.0), samples)
    d = p.defer(budget=4, y=y)
    np.testing.assert_allclose(
        d.uncertainty, (samples.var(axis=0, ddof=1) + 0.25).mean(axis=1)
    )
    square = ((p.mean - y) ** 2).mean(axis=1)
    assert d.risk == pytest.approx(square[d.kept].mean())


def test_pickles(p):
    d = p.defer(budget=3, y=np.zeros(40, int))
    again = pickle.loads(pickle.dumps(d))
    np.testing.assert_array_equal(again.rows, d.rows)
    np.testing.assert_array_equal(again.curve.risk, d.curve.risk)
    assert repr(again) == repr(d)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "either `budget` or `threshold`.*budget=None, threshold=None"),
        ({"budget": 1, "threshold": 0.5}, "either.*budget=1, threshold=0.5"),
        ({"budget": 1.5}, "float in .0, 1..*budget=1.5"),
        ({"budget": -1}, "at least 0.*budget=-1"),
        ({"budget": True}, "budget=True"),
        ({"budget": "all"}, "budget='all'"),
        ({"budget": math.nan}, "budget=nan"),
        ({"threshold": math.nan}, "not NaN.*threshold=nan"),
        ({"threshold": "high"}, "threshold='high'"),
        ({"budget": 1, "by": "doubt"}, "'auto'.*by='doubt'"),
        ({"budget": 1, "by": [1.0, 2.0]}, r"\(40,\).*\(2,\)"),
        ({"budget": 1, "by": ["a"] * 40}, "numbers.*<U1"),
        ({"budget": 1, "y": [0, 1]}, r"`y`.*\(40,\).*\(2,\)"),
        ({"budget": 1, "loss": [0, 1]}, r"`loss`.*\(40,\).*\(2,\)"),
        (
            {"budget": 1, "y": [0] * 40, "loss": [0] * 40},
            "`y`, `loss`, or neither.*both",
        ),
    ],
)
def test_bad_input(p, arguments, match):
    with pytest.raises(BayesdropError, match=match):
        p.defer(**arguments)


def test_bad_numbers_and_no_rows(p):
    with pytest.raises(NonFiniteError, match=r"`by`.*1 values"):
        p.defer(budget=1, by=[math.nan] + [0.0] * 39)
    with pytest.raises(BayesdropError, match=r"at least one row.*0 rows"):
        p[[]].defer(budget=1)
    regression = cases.predictive("regression", cases.classes()[..., 0])
    with pytest.raises(BayesdropError, match=r"not defined.*regression"):
        regression.defer(budget=1, by="predictive_entropy")
