# SPDX-License-Identifier: Apache-2.0
"""Conformal intervals and sets: they cover as often as they promise."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop import calibrate
from keras_bayesdrop.calibrate import _conformal_sets
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Regression
from tests.metrics import cases

REPETITIONS, CALIBRATION, TEST, LEVEL = 200, 49, 100, 0.9
# With scores that do not tie, the coverage of one calibration on n = 49 rows
# is Beta(k, n + 1 - k) with k = ceil(50 * 0.9) = 45: mean 0.9 exactly,
# variance 45 * 5 / (50**2 * 51) = 0.00176. Measured on 100 rows it scatters
# by at most 0.09 / 100 = 0.0009 besides. The mean over 200 repetitions has
# the standard deviation sqrt(0.00266 / 200) = 0.00365; four of them:
TOLERANCE = 0.0146


def regression(rng, rows, outputs=()):
    """A model that is biased, with noise it does not know."""
    scale = np.exp(rng.standard_normal(rows)).reshape(-1, *[1] * len(outputs))
    mean = rng.standard_normal((rows, *outputs)) + 0.3
    samples = mean + 0.3 * scale * rng.standard_normal((16, rows, *outputs))
    y = mean - 0.3 + scale * rng.standard_normal((rows, *outputs))
    return cases.of_samples(samples), y


def classification(rng, rows, classes=5):
    """A model that is far too sure."""
    logits = 2 * rng.standard_normal((rows, classes))
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    mean = scipy.special.softmax(3 * logits, axis=1)
    return cases.predictive("classification", mean), y


def binary(rng, rows):
    logits = rng.standard_normal(rows)
    y = rng.uniform(size=rows) < scipy.special.expit(logits)
    return cases.predictive("binary", scipy.special.expit(3 * logits)), y


def mean_coverage(case, covered, **options):
    rng = np.random.default_rng(0)
    result = []
    for _ in range(REPETITIONS):
        # Split after drawing, so that all rows are of one population.
        p, y = case(rng, CALIBRATION + TEST)
        fit = calibrate.conformal(
            y[:CALIBRATION], p[:CALIBRATION], LEVEL, **options
        )
        result.append(np.mean(covered(fit, p[CALIBRATION:], y[CALIBRATION:])))
    return np.mean(result)


def in_interval(fit, p, y):
    lower, upper = fit.intervals(p)
    return (lower <= y) & (y <= upper)


def in_set(fit, p, y):
    return fit.sets(p)[np.arange(len(y)), y.astype(int)]


@pytest.mark.parametrize("method", [None, "normalized", "absolute", "quantile"])
def test_intervals_cover(method):
    coverage = mean_coverage(regression, in_interval, method=method)
    assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)


def test_without_calibration_they_would_not_cover():
    rng = np.random.default_rng(0)
    p, y = regression(rng, 2000)
    lower, upper = p.interval(LEVEL)
    assert np.mean((lower <= y) & (y <= upper)) < 0.5


@pytest.mark.parametrize("case", [classification, binary])
@pytest.mark.parametrize("options", [{"randomize": True}, {"method": "lac"}])
def test_sets_cover(case, options):
    coverage = mean_coverage(case, in_set, **options)
    assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)


@pytest.mark.parametrize("case", [classification, binary])
def test_adaptive_sets_cover_more(case):
    # The score of the most likely class is at least its probability, so many
    # scores are near 1, and the coverage is above the level.
    coverage = mean_coverage(case, in_set, method="aps")
    assert coverage > LEVEL - TOLERANCE


def test_usual_score_is_one_that_tells_two_classes_apart():
    rng = np.random.default_rng(0)
    for case, method in ((classification, "aps"), (binary, "lac")):
        p, y = case(rng, 50)
        assert calibrate.conformal(y, p).method == method
    p, y = binary(rng, 200)
    assert calibrate.conformal(y, p, randomize=True).method == "aps"
    assert calibrate.conformal(y, p).sets(p).sum() < 1.7 * len(p)


def test_every_output_covers():
    rng = np.random.default_rng(0)
    result = []
    for _ in range(REPETITIONS):
        p, y = regression(rng, CALIBRATION + TEST, outputs=(2,))
        y[:, 1] *= 10
        fit = calibrate.conformal(y[:CALIBRATION], p[:CALIBRATION], LEVEL)
        assert fit.threshold.shape == (2,)
        inside = in_interval(fit, p[CALIBRATION:], y[CALIBRATION:])
        result.append(inside.mean(axis=0))
    for each in np.mean(result, axis=0):
        assert each == pytest.approx(LEVEL, abs=TOLERANCE)


def test_thresholds_by_hand():
    # Four rows at level 0.8: rank ceil(5 * 0.8) = 4, the largest score.
    p = cases.predictive("regression", np.array([0.0, 1.0, 2.0, 3.0]))
    y = [0.5, 1.0, 4.0, 2.0]
    fit = calibrate.conformal(y, p, 0.8, "absolute")
    assert (fit.threshold, fit.num_rows) == (2.0, 4)
    # At level 0.6: rank 3.
    fit = calibrate.conformal(y, p, 0.6, "absolute")
    assert fit.threshold == 1.0
    lower, upper = fit.intervals(p[:1])
    assert (lower, upper) == ([-1.0], [1.0])
    p = dataclasses.replace(p, variance=np.array([1.0, 1.0, 16.0, 4.0]))
    # Residuals over standard deviations: 0.5, 0, 0.5, 0.5.
    fit = calibrate.conformal(y, p, 0.8)
    assert fit.threshold == 0.5
    lower, upper = fit.intervals(p)
    np.testing.assert_allclose(upper - lower, [1, 1, 4, 2])
    # Noise counts: 3 more of variance.
    p = dataclasses.replace(p, head=Regression(1 / 3))
    assert calibrate.conformal(y, p, 0.8).threshold == pytest.approx(
        19**-0.5 * 2
    )


def test_quantile_intervals_by_hand():
    samples = np.array([[-1.0] * 4, [0.0] * 4, [1.0] * 4])
    p = cases.of_samples(samples)
    # The interval of level 0.8 is [-0.8, 0.8]: scores 0.7, -0.8, 1.2, -0.3.
    fit = calibrate.conformal([1.5, 0.0, -2.0, 0.5], p, 0.8, "quantile")
    assert fit.threshold == pytest.approx(1.2)
    lower, upper = fit.intervals(p[:1])
    assert (lower[0], upper[0]) == pytest.approx((-2.0, 2.0))
    # Intervals that are much too wide shrink, but not past a point.
    fit = calibrate.conformal([0.1] * 4, p, 0.8, "quantile")
    assert fit.threshold == pytest.approx(-0.7)
    narrow = cases.of_samples(samples / 10)
    lower, upper = fit.intervals(narrow)
    np.testing.assert_allclose(lower, 0.0, atol=1e-12)
    np.testing.assert_allclose(upper, 0.0, atol=1e-12)


def test_sets_by_hand():
    p = cases.predictive(
        "classification",
        np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1]]),
    )
    # Scores of the labels: 0.8; 1.0, as equal classes rank by their number;
    # 0.6. At level 0.5 the second of the three: 0.8.
    fit = calibrate.conformal([1, 2, 0], p, 0.5)
    assert fit.threshold == pytest.approx(0.8)
    assert fit.num_classes == 3
    np.testing.assert_array_equal(
        fit.sets(p), [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    )
    # Plain scores: 0.7, 0.9, 0.4; the second is 0.7.
    fit = calibrate.conformal([1, 2, 0], p, 0.5, "lac")
    assert fit.threshold == pytest.approx(0.7)
    np.testing.assert_array_equal(
        fit.sets(p), [[1, 1, 0], [0, 1, 0], [1, 1, 0]]
    )


def test_empty_sets_can_be_filled():
    mean = np.array([[0.9, 0.1]] * 9 + [[0.5, 0.5]])
    p = cases.predictive("classification", mean)
    fit = calibrate.conformal([0] * 9, p[:9], method="lac")
    np.testing.assert_array_equal(fit.sets(p[9:]), [[0, 0]])
    np.testing.assert_array_equal(fit.sets(p[9:], allow_empty=False), [[1, 0]])
    np.testing.assert_array_equal(
        fit.sets(p, allow_empty=False)[:9], fit.sets(p)[:9]
    )


def test_random_sets_are_repeatable_and_lie_within_the_plain_ones():
    p, y = classification(np.random.default_rng(0), 200)
    fit = calibrate.conformal(y[:99], p[:99], randomize=True, seed=5)
    first = fit.sets(p[99:])
    np.testing.assert_array_equal(first, fit.sets(p[99:]))
    assert np.any(first != fit.sets(p[99:], seed=6))
    plain = calibrate.conformal(y[:99], p[:99])
    assert first.sum() < plain.sets(p[99:]).sum()


def test_random_shares_of_calibration_and_prediction_differ():
    # Equal ones would make a new row repeat the draw of a calibration row.
    p = np.full((50, 2), 0.5)
    one = _conformal_sets.random_shares(p, 0, _conformal_sets.CALIBRATION)
    other = _conformal_sets.random_shares(p, 0, _conformal_sets.PREDICTION)
    # Two independent numbers of 50 pairs are never that close: 1 in 10^8.
    assert np.abs(one - other).min() > 1e-10


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


@pytest.mark.parametrize("carry", ["pickle", "json"])
def test_fits_travel(carry):
    rng = np.random.default_rng(0)
    for case, options in (
        (regression, {}),
        (classification, {"randomize": True, "seed": 3}),
    ):
        p, y = case(rng, 50)
        fit = calibrate.conformal(y, p, **options)
        if carry == "pickle":
            same = pickle.loads(pickle.dumps(fit))
        else:
            text = json.dumps(fit.to_dict())
            same = type(fit).from_dict(json.loads(text))
        assert same.to_dict() == fit.to_dict()
        if case is regression:
            np.testing.assert_array_equal(same.intervals(p), fit.intervals(p))
        else:
            np.testing.assert_array_equal(same.sets(p), fit.sets(p))


@pytest.mark.parametrize(
    ("rows", "level", "needed"), [(8, 0.9, 9), (98, 0.99, 99), (1, 0.7, 3)]
)
def test_too_few_rows(rows, level, needed):
    rng = np.random.default_rng(0)
    p, y = regression(rng, needed)
    with pytest.raises(
        BayesdropError, match=rf"at least {needed} rows.*Received: {rows} rows"
    ):
        calibrate.conformal(y[:rows], p[:rows], level)
    fit = calibrate.conformal(y, p, level)
    scores = np.abs(y - p.mean) / p.std
    assert fit.threshold == pytest.approx(scores.max())


def test_bad_arguments():
    p, y = regression(np.random.default_rng(0), 20)
    c, labels = classification(np.random.default_rng(0), 20)
    for level in (0, 1, 90, np.nan, "a"):
        with pytest.raises(BayesdropError, match=r"`level`.*\(0, 1\)"):
            calibrate.conformal(y, p, level)
    with pytest.raises(BayesdropError, match=r"`method`.*'normalized'.*'aps'"):
        calibrate.conformal(y, p, method="aps")
    with pytest.raises(BayesdropError, match=r"`method`.*'aps', 'lac'.*'abs"):
        calibrate.conformal(labels, c, method="absolute")
    with pytest.raises(BayesdropError, match="unless method='aps'"):
        calibrate.conformal(labels, c, method="lac", randomize=True)
    with pytest.raises(BayesdropError, match="unless method='aps'"):
        calibrate.conformal(y, p, randomize=True)
    with pytest.raises(BayesdropError, match="`seed`"):
        calibrate.conformal(labels, c, seed=-1)
    with pytest.raises(BayesdropError, match=r"`Predictive`.*ndarray"):
        calibrate.conformal(y, p.mean)
    with pytest.raises(BayesdropError, match=r"`y`.*\(20,\).*\(19,\)"):
        calibrate.conformal(y[:19], p)
    with pytest.raises(NonFiniteError, match="1 values"):
        calibrate.conformal([np.nan, *y[1:]], p)
    with pytest.raises(BayesdropError, match="without examples"):
        calibrate.conformal([], p[:0])
    still = cases.predictive("regression", np.zeros(20))
    with pytest.raises(BayesdropError, match=r"20 that are zero.*'absolute'"):
        calibrate.conformal(y, still)


def test_predictions_that_do_not_fit():
    rng = np.random.default_rng(0)
    p, y = regression(rng, 20)
    c, labels = classification(rng, 20)
    intervals = calibrate.conformal(y, p)
    sets = calibrate.conformal(labels, c)
    with pytest.raises(BayesdropError, match="Received: task='classification'"):
        intervals.intervals(c)
    with pytest.raises(BayesdropError, match="Received: task='regression'"):
        sets.sets(p)
    two, _ = regression(rng, 20, outputs=(2,))
    with pytest.raises(BayesdropError, match=r"shape \(\).*shape \(2,\)"):
        intervals.intervals(two)
    four, _ = classification(rng, 20, classes=4)
    with pytest.raises(BayesdropError, match=r"\(5,\).*\(4,\)"):
        sets.sets(four)
    with pytest.raises(BayesdropError, match=r"keys.*'threshold'.*\['level'\]"):
        calibrate.ConformalSets.from_dict({"level": 0.9})
    with pytest.raises(BayesdropError, match=r"Cannot read.*None"):
        calibrate.ConformalSets.from_dict(None)
    with pytest.raises(BayesdropError, match="`method`"):
        calibrate.ConformalIntervals.from_dict(
            {**intervals.to_dict(), "method": "x"}
        )
