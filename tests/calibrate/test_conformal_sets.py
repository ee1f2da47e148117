# SPDX-License-Identifier: Apache-2.0
"""Conformal sets of classes: the scores, ties, and sets that are not empty."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from keras_bayesdrop import calibrate
from keras_bayesdrop.calibrate import _conformal_scores
from keras_bayesdrop.errors import BayesdropError
from tests.calibrate.conformal_cases import binary
from tests.calibrate.conformal_cases import classification
from tests.calibrate.conformal_cases import sure_classification
from tests.metrics import cases

# Multiples of 1 / 64, of which sums are exact. Many are equal, 0 or 1.
PROBABILITIES = hnp.arrays(
    np.int64,
    st.tuples(st.integers(9, 12), st.integers(2, 6)),
    elements=st.integers(0, 8) | st.just(0) | st.just(64),
)
METHODS = st.sampled_from(["aps", "lac", "raps"])


def predicted(mean):
    return cases.predictive("classification", np.asarray(mean))


def brute_score(p, c, method, penalty=0.0, k_reg=0):
    """The definition, for one row."""
    larger = [q for q in p if q > p[c]]
    if method == "lac":
        return 1 - p[c] if larger else 0.0
    if not larger:
        return 0.0
    return sum(larger) + penalty * max(len(larger) + 1 - k_reg, 0)


def test_sets_by_hand():
    p = predicted([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1]])
    # Larger than the label's: 0.5; 0.8; nothing. At level 0.5 the second of
    # the three: 0.5.
    fit = calibrate.conformal([1, 2, 0], p, 0.5)
    assert fit.threshold == pytest.approx(0.5)
    assert fit.num_classes == 3
    np.testing.assert_array_equal(
        fit.sets(p), [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    )
    # Plain scores: 0.7, 0.9, and 0 of the likeliest; the second is 0.7.
    fit = calibrate.conformal([1, 2, 0], p, 0.5, "lac")
    assert fit.threshold == pytest.approx(0.7)
    np.testing.assert_array_equal(
        fit.sets(p), [[1, 1, 0], [0, 1, 0], [1, 1, 0]]
    )
    # 0.4 for every rank beyond the first: 0.9, 1.2, 0; the second is 0.9.
    fit = calibrate.conformal([1, 2, 0], p, 0.5, "raps", penalty=0.4, k_reg=1)
    assert fit.threshold == pytest.approx(0.9)
    np.testing.assert_array_equal(
        fit.sets(p), [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    )
    # 0.4 for the third rank only: 0.5 of both; 0.8, since the second and the
    # third tie; 0.
    fit = calibrate.conformal([1, 2, 0], p, 0.5, "raps", penalty=0.4, k_reg=2)
    assert fit.threshold == pytest.approx(0.5)


@given(PROBABILITIES, METHODS, st.data())
def test_sets_are_those_of_the_definition(numerators, method, data):
    mean = numerators / 64
    rows, classes = mean.shape
    y = data.draw(
        hnp.arrays(np.int64, rows, elements=st.integers(0, classes - 1))
    )
    options = {"penalty": 0.25, "k_reg": 1} if method == "raps" else {}
    scores = np.array(
        [
            [brute_score(p, c, method, **options) for c in range(classes)]
            for p in mean
        ]
    )
    rank = math.ceil((rows + 1) * 0.7 - 1e-9)
    threshold = sorted(scores[np.arange(rows), y])[rank - 1]
    fit = calibrate.conformal(y, predicted(mean), 0.7, method, **options)
    assert fit.threshold == threshold
    sets = fit.sets(predicted(mean))
    np.testing.assert_array_equal(sets, scores <= threshold)
    # Never empty, and the likeliest class is in it.
    assert np.all(sets[mean == mean.max(axis=1, keepdims=True)])


@given(
    PROBABILITIES,
    METHODS,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["float16", "float32", "float64"]),
    st.data(),
)
def test_no_set_is_empty_by_default(
    numerators, method, randomize, per_class, dtype, data
):
    weights = np.maximum(numerators, 1e-30) ** 3
    mean = (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)
    rows, classes = mean.shape
    y = data.draw(
        hnp.arrays(np.int64, rows, elements=st.integers(0, classes - 1))
    )
    y[:9] = 0  # Enough for a class, and none of another is a warning.
    p = predicted(mean)
    with_warnings = per_class
    options = {
        "method": method,
        "randomize": randomize and method != "lac",
        "per_class": per_class,
    }
    if with_warnings:
        with pytest.warns(UserWarning, match="Too few calibration rows"):
            fit = calibrate.conformal(y, p, 0.9, **options)
    else:
        fit = calibrate.conformal(y, p, 0.9, **options)
    sets = fit.sets(p)
    assert np.all(sets.any(axis=1))
    assert np.all(sets[p.mean == p.mean.max(axis=1, keepdims=True)])


@given(PROBABILITIES, METHODS, st.randoms(use_true_random=False))
def test_the_order_of_the_classes_makes_no_difference(
    numerators, method, random
):
    rng = np.random.default_rng(random.randrange(2**32))
    mean = numerators / 7 / 64  # Sums of these are rounded.
    order = rng.permutation(mean.shape[1])
    penalty = _conformal_scores.usual_penalty(method, None, None)
    score = _conformal_scores.ClassScore(method, False, False, *penalty)
    np.testing.assert_array_equal(
        score(mean, None)[:, order], score(mean[:, order], None)
    )


def test_equal_and_certain_probabilities():
    p = predicted([[0.25] * 4, [1.0, 0, 0, 0], [0.5, 0.5, 0, 0]])
    sure = predicted([[0.9, 0.1, 0, 0]] * 9)
    fit = calibrate.conformal([0] * 9, sure)
    assert fit.threshold == 0
    np.testing.assert_array_equal(
        fit.sets(p), [[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]]
    )
    # A label that the model holds for impossible takes all classes along.
    fit = calibrate.conformal([2] * 9, sure)
    assert fit.threshold == 1
    assert np.all(fit.sets(p))


def test_the_surest_rows_get_one_class():
    p, y = sure_classification(np.random.default_rng(0), 600)
    sets = calibrate.conformal(y[:300], p[:300]).sets(p[300:])
    top = p.mean[300:].max(axis=1)
    assert np.sum(top > 0.99) > 100
    np.testing.assert_array_equal(sets.sum(axis=1)[top > 0.99], 1)


@pytest.mark.parametrize("case", [binary, classification])
def test_two_classes_have_the_same_sets_by_all_scores(case):
    rng = np.random.default_rng(0)
    p, y = case(rng, 300) if case is binary else case(rng, 300, classes=2)
    first = calibrate.conformal(y, p, method="aps").sets(p)
    for method in ("lac", "raps"):
        same = calibrate.conformal(y, p, method=method).sets(p)
        np.testing.assert_array_equal(same, first)
    assert 0 < np.mean(first.sum(axis=1) == 1) < 1


def test_binary_labels_are_two_classes():
    p, y = binary(np.random.default_rng(0), 200)
    pairs = predicted(np.stack([1 - p.mean, p.mean], axis=1))
    for options in (
        {"method": "aps"},
        {"method": "aps", "randomize": True, "allow_empty": True, "seed": 2},
    ):
        np.testing.assert_array_equal(
            calibrate.conformal(y, p, **options).sets(p),
            calibrate.conformal(y, pairs, **options).sets(pairs),
        )


def test_samples_and_moments_count_by_their_mean():
    rng = np.random.default_rng(0)
    p, y = classification(rng, 100)
    fit = calibrate.conformal(y, p)
    moments = type(p)(head=p.head, mean=p.mean, variance=p.variance)
    assert not moments.stats.sampled
    assert calibrate.conformal(y, moments).to_dict() == fit.to_dict()
    np.testing.assert_array_equal(fit.sets(moments), fit.sets(p))


def test_raps_shrinks_the_sets_of_a_long_tail():
    # 200 classes, of which five are likely and the others noise.
    rng = np.random.default_rng(0)
    logits = np.zeros((3000, 200))
    logits[:, :5] = 5 * rng.uniform(0.5, 1, (3000, 5))
    y = np.argmax(1.5 * logits + rng.gumbel(size=logits.shape), axis=1)
    noisy = logits + 0.8 * rng.standard_normal(logits.shape)
    p = predicted(scipy.special.softmax(0.8 * noisy, axis=1))
    sizes = {
        method: calibrate.conformal(y[:1500], p[:1500], method=method)
        .sets(p[1500:])
        .sum(axis=1)
        .mean()
        for method in ("aps", "raps")
    }
    assert sizes["raps"] < 0.7 * sizes["aps"]
    free = calibrate.conformal(y, p, method="raps", penalty=0.0)
    plain = calibrate.conformal(y, p, method="aps")
    assert free.threshold == plain.threshold


def test_empty_sets_are_an_option():
    mean = np.array([[0.9, 0.1]] * 9 + [[0.5, 0.5], [0.55, 0.45]])
    p = predicted(mean)
    fit = calibrate.conformal([0] * 9, p[:9], method="lac", allow_empty=True)
    assert fit.threshold == pytest.approx(0.1)
    np.testing.assert_array_equal(fit.sets(p[9:]), [[0, 0], [0, 0]])
    full = calibrate.conformal([0] * 9, p[:9], method="lac")
    np.testing.assert_array_equal(full.sets(p[9:]), [[1, 1], [1, 0]])
    np.testing.assert_array_equal(full.sets(p)[:9], fit.sets(p)[:9])


def test_sets_without_empty_ones_are_no_larger_than_filled_ones():
    rng = np.random.default_rng(0)
    for case in (classification, sure_classification):
        p, y = case(rng, 400)
        filled = calibrate.conformal(y, p, method="lac", allow_empty=True)
        filled = filled.sets(p) | (p.mean == p.mean.max(1, keepdims=True))
        sets = calibrate.conformal(y, p, method="lac").sets(p)
        assert np.all(filled | ~sets)


@pytest.mark.parametrize("method", ["aps", "raps"])
def test_random_sets_are_repeatable_and_may_be_empty(method):
    p, y = sure_classification(np.random.default_rng(0), 400)
    fit = calibrate.conformal(
        y[:199],
        p[:199],
        method=method,
        randomize=True,
        allow_empty=True,
        seed=5,
    )
    first = fit.sets(p[199:])
    np.testing.assert_array_equal(first, fit.sets(p[199:]))
    assert np.any(first != fit.sets(p[199:], seed=6))
    assert np.any(first.sum(axis=1) == 0)
    # A class counts at least the mass above it, so the sets lie within those
    # of that mass alone.
    mass, _ = _conformal_scores.mass_above(p.mean[199:])
    assert np.all((mass <= fit.threshold) | ~first)
    plain = calibrate.conformal(y[:199], p[:199], method=method)
    rows, labels = np.arange(201), y[199:]
    assert first[rows, labels].sum() < plain.sets(p[199:])[rows, labels].sum()


def test_random_sets_lie_between_the_scores_without_and_with_the_class():
    p = np.array([[0.5, 0.3, 0.2]])
    score = _conformal_scores.ClassScore("aps", True, True, None, None)
    low = score(p, np.array([[1.0]]))
    np.testing.assert_allclose(low, [[0, 0.5, 0.8]])
    np.testing.assert_allclose(score(p, np.array([[0.0]])), [[0.5, 0.8, 1.0]])
    np.testing.assert_allclose(score(p, np.array([[0.5]])), low + p / 2)


def test_random_shares_of_calibration_and_prediction_differ():
    # Equal ones would make a new row repeat the draw of a calibration row.
    p = np.full((50, 2), 0.5)
    one = _conformal_scores.random_shares(p, 0, _conformal_scores.CALIBRATION)
    other = _conformal_scores.random_shares(p, 0, _conformal_scores.PREDICTION)
    # Two independent numbers of 50 pairs are never that close: 1 in 10^8.
    assert np.abs(one - other).min() > 1e-10


def test_draws_of_prediction_are_not_those_of_calibration():
    # With the same draws, the rows of the calibration would keep their class
    # in exactly 45 = ceil(50 * 0.9) of 49 sets, for every seed.
    p = predicted([[1.0, 0.0]] * 49)
    kept = {
        calibrate.conformal(
            [0] * 49, p, randomize=True, allow_empty=True, seed=seed
        )
        .sets(p)
        .sum()
        for seed in range(10)
    }
    assert len(kept) > 1


def test_several_binary_labels():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((60, 3))
    y = rng.uniform(size=(60, 3)) < scipy.special.expit(logits)
    p = cases.predictive("binary", scipy.special.expit(logits))
    fit = calibrate.conformal(y, p, method="lac")
    assert fit.threshold.shape == (3,)
    sets = fit.sets(p)
    assert sets.shape == (60, 3, 2)
    for d in range(3):
        alone = cases.predictive("binary", p.mean[:, d])
        one = calibrate.conformal(y[:, d], alone, method="lac")
        np.testing.assert_array_equal(one.sets(alone), sets[:, d])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allow_empty": True}, "`allow_empty`.*without `randomize`"),
        (
            {"method": "raps", "allow_empty": True},
            "`allow_empty`.*no set of method='raps'",
        ),
        ({"method": "lac", "randomize": True}, "unless method='aps' or 'raps'"),
        ({"penalty": 0.1}, "Only method='raps'.*'aps', penalty=0.1"),
        ({"method": "lac", "k_reg": 2}, "Only method='raps'.*k_reg=2"),
        ({"method": "raps", "penalty": -1}, "`penalty`.*at least 0.*-1"),
        ({"method": "raps", "penalty": np.nan}, "`penalty`.*nan"),
        ({"method": "raps", "k_reg": 5}, "`k_reg`.*at most 4.*k_reg=5"),
        ({"method": "raps", "k_reg": -1}, "`k_reg`.*at least 0"),
        ({"randomize": 1}, "`randomize`.*`True` or `False`"),
        ({"allow_empty": None}, "`allow_empty`.*`True` or `False`"),
        ({"per_class": "yes"}, "`per_class`.*`True` or `False`"),
    ],
)
def test_options_that_make_no_sense(options, message):
    p, y = classification(np.random.default_rng(0), 20)
    with pytest.raises(BayesdropError, match=message):
        calibrate.conformal(y, p, **options)


def test_a_bad_seed_of_new_sets():
    p, y = classification(np.random.default_rng(0), 20)
    fit = calibrate.conformal(y, p, randomize=True)
    with pytest.raises(BayesdropError, match=r"`seed`.*-1"):
        fit.sets(p, seed=-1)
