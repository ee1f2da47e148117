# SPDX-License-Identifier: Apache-2.0
"""Calibration of conformal intervals and sets: values and bad input."""

import dataclasses
import json
import pickle

import numpy as np
import pytest

from keras_bayesdrop import calibrate
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Regression
from tests.calibrate.conformal_cases import binary
from tests.calibrate.conformal_cases import classification
from tests.calibrate.conformal_cases import regression
from tests.metrics import cases


def test_usual_score_is_one_that_tells_two_classes_apart():
    rng = np.random.default_rng(0)
    for case, method in ((classification, "aps"), (binary, "lac")):
        p, y = case(rng, 50)
        assert calibrate.conformal(y, p).method == method
    p, y = binary(rng, 200)
    assert calibrate.conformal(y, p, randomize=True).method == "aps"
    assert calibrate.conformal(y, p).sets(p).sum() < 1.7 * len(p)


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


@pytest.mark.parametrize("carry", ["pickle", "json"])
def test_fits_travel(carry):
    rng = np.random.default_rng(0)
    for case, options in (
        (regression, {}),
        (classification, {"randomize": True, "seed": 3}),
        (classification, {"randomize": True, "allow_empty": True}),
        (classification, {"method": "raps", "penalty": 0.2, "k_reg": 1}),
        (
            classification,
            {
                "level": np.float32(0.9),
                "method": "raps",
                "penalty": np.float32(0.2),
                "k_reg": np.int64(1),
            },
        ),
        (binary, {"method": "lac", "allow_empty": True}),
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
    for name, value in (
        ("randomize", True),
        ("allow_empty", True),
        ("per_class", True),
        ("penalty", 0.0),
        ("k_reg", 0),
    ):
        with pytest.raises(BayesdropError, match=rf"`{name}`.*not of interv"):
            calibrate.conformal(y, p, **{name: value})
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
