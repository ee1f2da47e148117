# SPDX-License-Identifier: Apache-2.0
"""Thresholds per class and per group: the level holds in each of them."""

import json
import pickle
import re

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop import calibrate
from keras_bayesdrop.calibrate._conformal_cells import cell_thresholds
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.errors import NonFiniteError
from tests.calibrate.conformal_cases import CALIBRATION
from tests.calibrate.conformal_cases import LEVEL
from tests.calibrate.conformal_cases import REPETITIONS
from tests.calibrate.conformal_cases import TEST
from tests.calibrate.conformal_cases import TOLERANCE
from tests.calibrate.conformal_cases import classification
from tests.calibrate.conformal_cases import in_interval
from tests.calibrate.conformal_cases import in_set
from tests.calibrate.conformal_cases import regression
from tests.metrics import cases

NAMES = np.array(["north", "east", "south"])


def three_classes(rng):
    """Rows of three classes, each harder than the one before it.

    As many of each class as the tolerance is computed for: first those of
    the calibration, then those of the test.
    """
    y = np.concatenate(
        [np.repeat(np.arange(3), CALIBRATION), np.repeat(np.arange(3), TEST)]
    )
    logits = rng.standard_normal((len(y), 3))
    logits[np.arange(len(y)), y] += np.array([3.0, 1.0, 0.0])[y]
    mean = scipy.special.softmax(2 * logits, axis=1)
    return cases.predictive("classification", mean), y, y


def three_groups(rng):
    """The same for three groups of rows, and labels that are independent."""
    p, group, _ = three_classes(rng)
    y = rng.integers(0, 3, len(group))
    # Each row's label takes the place of its group.
    shift = (np.arange(3) - y[:, None] + group[:, None]) % 3
    mean = np.take_along_axis(p.mean, shift, axis=1)
    return cases.predictive("classification", mean), y, group


def three_noises(rng):
    """Numbers, with noise of three sizes that the model does not know."""
    group = np.concatenate(
        [np.repeat(np.arange(3), CALIBRATION), np.repeat(np.arange(3), TEST)]
    )
    p, y = regression(rng, len(group))
    return p, y * np.array([1.0, 3.0, 10.0])[group], group


def coverage_of_each(case, covered, grouped=False, **options):
    """Mean coverage of each of the three classes or groups."""
    rng = np.random.default_rng(0)
    first = 3 * CALIBRATION
    result = []
    for seed in range(REPETITIONS):
        p, y, part = case(rng)
        before, after = {}, {}
        if grouped:
            before = {"groups": NAMES[part[:first]]}
            after = {"groups": NAMES[part[first:]]}
        fit = calibrate.conformal(
            y[:first], p[:first], LEVEL, seed=seed, **before, **options
        )
        inside = covered(fit, p[first:], y[first:], **after)
        result.append([inside[part[first:] == k].mean() for k in range(3)])
    return np.mean(result, axis=0)


SETS = [
    {"method": "aps"},
    {"method": "raps"},
    {"method": "lac"},
    {"method": "aps", "randomize": True, "allow_empty": True},
    {"method": "raps", "randomize": True, "allow_empty": True},
    {"method": "lac", "allow_empty": True},
]


@pytest.mark.parametrize("options", SETS)
@pytest.mark.parametrize("case", [three_classes, three_groups])
def test_sets_cover_in_each_part(case, options):
    by = {"per_class": True} if case is three_classes else {"grouped": True}
    coverage = coverage_of_each(case, in_set, **by, **options)
    # The first part is right more often than the level.
    assert coverage[0] > LEVEL - TOLERANCE
    exact = coverage if options.get("allow_empty") else coverage[1:]
    np.testing.assert_allclose(exact, LEVEL, atol=TOLERANCE)


@pytest.mark.parametrize("method", ["normalized", "absolute", "quantile"])
def test_intervals_cover_in_each_group(method):
    coverage = coverage_of_each(
        three_noises, in_interval, grouped=True, method=method
    )
    np.testing.assert_allclose(coverage, LEVEL, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("case", "covered"),
    [
        (three_classes, in_set),
        (three_groups, in_set),
        (three_noises, in_interval),
    ],
)
def test_one_threshold_covers_some_parts_too_little(case, covered):
    coverage = coverage_of_each(case, covered)
    assert coverage.min() < LEVEL - 2 * TOLERANCE
    assert coverage.mean() > LEVEL - TOLERANCE


def test_parts_are_calibrated_alone():
    """Thresholds are those of the rows of each class, group or both."""
    rng = np.random.default_rng(0)
    p, y, _ = three_classes(rng)
    group = rng.integers(0, 2, len(y))
    whole = calibrate.conformal(y, p, groups=group, per_class=True)
    assert whole.threshold.shape == (2, 3)
    sets = whole.sets(p, groups=group)
    for g in range(2):
        of_group = group == g
        alone = calibrate.conformal(y[of_group], p[of_group])
        grouped = calibrate.conformal(y, p, groups=group)
        assert grouped.threshold[g] == alone.threshold
        np.testing.assert_array_equal(
            grouped.sets(p, groups=group)[of_group], alone.sets(p[of_group])
        )
        for c in range(3):
            of_class = y == c
            alone = calibrate.conformal(y[of_class], p[of_class])
            per_class = calibrate.conformal(y, p, per_class=True)
            assert per_class.threshold[c] == alone.threshold
            np.testing.assert_array_equal(
                per_class.sets(p)[:, c], alone.sets(p)[:, c]
            )
            both = of_group & of_class
            alone = calibrate.conformal(y[both], p[both])
            assert whole.threshold[g, c] == alone.threshold
            np.testing.assert_array_equal(
                sets[of_group, c], alone.sets(p[of_group])[:, c]
            )


def test_several_outputs():
    rng = np.random.default_rng(0)
    mean = rng.uniform(size=(200, 2))
    y = rng.uniform(size=(200, 2)) < mean
    group = np.arange(200) % 3
    p = cases.predictive("binary", mean)
    fit = calibrate.conformal(y, p, groups=group, per_class=True)
    assert fit.threshold.shape == (3, 2, 2)
    assert fit.sets(p, groups=group).shape == (200, 2, 2)
    for d in range(2):
        one = cases.predictive("binary", mean[:, d])
        alone = calibrate.conformal(y[:, d], one, groups=group, per_class=True)
        np.testing.assert_array_equal(alone.threshold, fit.threshold[:, d])
    numbers = cases.predictive("regression", mean)
    fit = calibrate.conformal(y, numbers, method="absolute", groups=group)
    assert fit.threshold.shape == (3, 2)
    lower, upper = fit.intervals(numbers, groups=group)
    np.testing.assert_allclose(upper - lower, 2 * fit.threshold[group])


def test_thresholds_of_cells_by_hand():
    scores = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 9.0])
    cells = np.array([0, 2, 0, 0, 2, 0])
    # Ranks at level 0.6: ceil(5 * 0.6) = 3 of four; 1 of none; 2 of two.
    thresholds, counts = cell_thresholds(scores, cells, 3, 0.6)
    np.testing.assert_array_equal(thresholds, [5, np.inf, 3])
    np.testing.assert_array_equal(counts, [4, 0, 2])


def test_too_few_rows_of_a_class():
    p, y = classification(np.random.default_rng(0), 100)
    y[:92] %= 3
    y[92:] = 3
    match = re.escape("class 3 (8 rows), class 4 (0 rows). Expected at least 9")
    with pytest.warns(BayesdropWarning, match=match) as record:
        fit = calibrate.conformal(y, p, per_class=True)
    assert record[0].filename == __file__
    assert "every set contains these classes" in str(record[0].message)
    assert np.all(np.isfinite(fit.threshold[:3]))
    np.testing.assert_array_equal(fit.threshold[3:], np.inf)
    sets = fit.sets(p)
    assert np.all(sets[:, 3:])
    assert not np.all(sets[:, :3])


@pytest.mark.parametrize("method", ["normalized", "absolute", "quantile"])
def test_too_few_rows_of_a_group(method):
    p, y = regression(np.random.default_rng(0), 30)
    group = np.array(["a"] * 22 + ["b"] * 8)
    with pytest.warns(BayesdropWarning, match=r"group 'b' \(8 rows\).*infinit"):
        fit = calibrate.conformal(y, p, method=method, groups=group)
    lower, upper = fit.intervals(p, groups=group)
    assert np.all(np.isfinite(lower[:22])) and np.all(np.isfinite(upper[:22]))
    np.testing.assert_array_equal(lower[22:], -np.inf)
    np.testing.assert_array_equal(upper[22:], np.inf)
    c, labels = classification(np.random.default_rng(0), 30)
    with pytest.warns(BayesdropWarning, match="contain all classes"):
        fit = calibrate.conformal(labels, c, groups=group)
    assert np.all(fit.sets(c, groups=group)[22:])
    assert not np.all(fit.sets(c, groups=group)[:22])


def test_many_small_classes_are_counted():
    p, y = classification(np.random.default_rng(0), 60, classes=12)
    y[:20] = 0
    with pytest.warns(BayesdropWarning, match=r"rows\) and \d+ more\."):
        calibrate.conformal(y, p, per_class=True)


def test_too_few_rows_everywhere():
    p, y = regression(np.random.default_rng(0), 16)
    with pytest.raises(
        BayesdropError, match=r"at least 9 rows.*Received: 8 rows in the larg"
    ):
        calibrate.conformal(y, p, groups=np.arange(16) % 2)


@pytest.mark.parametrize("carry", ["pickle", "json"])
@pytest.mark.filterwarnings("ignore:Too few calibration rows")
def test_thresholds_travel(carry):
    rng = np.random.default_rng(0)
    c, labels = classification(rng, 50)
    p, y = regression(rng, 50)
    group = np.array(["a"] * 45 + ["b"] * 5)
    for fit in (
        calibrate.conformal(labels, c, per_class=True),
        calibrate.conformal(labels, c, groups=group, per_class=True),
        calibrate.conformal(labels, c, groups=np.arange(50) % 2),
        calibrate.conformal(y, p, groups=group),
    ):
        if carry == "pickle":
            same = pickle.loads(pickle.dumps(fit))
        else:
            # Infinity is no number of JSON.
            text = json.dumps(fit.to_dict(), allow_nan=False)
            same = type(fit).from_dict(json.loads(text))
        assert same.to_dict() == fit.to_dict()
        assert same.groups == fit.groups
        np.testing.assert_array_equal(same.threshold, fit.threshold)


@pytest.mark.parametrize(
    "groups",
    [
        np.arange(30) % 2,
        (np.arange(30) % 2).astype(np.uint8),
        (np.arange(30) % 2)[:, None],
        np.arange(30) % 2 == 1,
        (np.arange(30) % 2).astype(object),
        list(np.arange(30) % 2),
        list(np.arange(30) % 2 == 1),
    ],
)
def test_groups_of_every_type(groups):
    p, y = regression(np.random.default_rng(0), 30)
    fit = calibrate.conformal(y, p, groups=groups)
    assert fit.groups == (0, 1)
    plain = np.arange(30) % 2
    np.testing.assert_array_equal(
        fit.intervals(p, groups=plain), fit.intervals(p, groups=groups)
    )


def test_text_of_every_type():
    p, y = regression(np.random.default_rng(0), 30)
    groups = np.array(["b", "aa"])[np.arange(30) % 2]
    fit = calibrate.conformal(y, p, groups=groups)
    assert fit.groups == ("aa", "b")
    for other in (groups.tolist(), groups.astype(object)):
        np.testing.assert_array_equal(
            fit.intervals(p, groups=other), fit.intervals(p, groups=groups)
        )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(19), r"shape of argument `groups`.*\(20,\).*\(19,\)"),
        (np.zeros((20, 2), int), r"\(20,\).*\(20, 2\)"),
        (np.zeros(20), "Expected integers of 64 bits, or strings.*float64"),
        ([0.5] * 20, "Received: values of type float$"),
        ([2**70] * 20, "type int$"),
        ([None] * 20, "type NoneType$"),
        (["a"] * 19 + [np.nan], "type float, str$"),
        (["a"] * 19 + [1], "type int, str$"),
        (np.array(["a"] * 19 + [np.nan], dtype=object), "type float, str$"),
        (np.full(20, 2**64 - 1, dtype=np.uint64), "uint64"),
        (b"a" * 20, r"\(\)"),
    ],
)
def test_bad_groups(groups, message):
    p, y = regression(np.random.default_rng(0), 20)
    with pytest.raises(BayesdropError, match=message):
        calibrate.conformal(y, p, groups=groups)


def test_groups_that_do_not_fit_the_calibration():
    rng = np.random.default_rng(0)
    p, y = regression(rng, 20)
    c, labels = classification(rng, 20)
    group = np.arange(20) % 2
    for target, prediction, method in (
        (y, p, "intervals"),
        (labels, c, "sets"),
    ):
        fit = calibrate.conformal(target, prediction, groups=group)
        use = getattr(fit, method)
        with pytest.raises(BayesdropError, match=r"each group.*groups=None"):
            use(prediction)
        with pytest.raises(
            BayesdropError, match=r"Unknown groups.*: 0, 1\. Received: 2, 7$"
        ):
            use(prediction, groups=[2, 7] + [0] * 18)
        with pytest.raises(BayesdropError, match=r"Received: '0', '1'"):
            use(prediction, groups=group.astype(str))
        with pytest.raises(BayesdropError, match=r"\(20,\).*\(3,\)"):
            use(prediction, groups=[0, 1, 0])
        fit = calibrate.conformal(target, prediction)
        with pytest.raises(BayesdropError, match=r"has no groups.*20 rows"):
            getattr(fit, method)(prediction, groups=group)


def test_damaged_fits():
    c, labels = classification(np.random.default_rng(0), 20)
    fit = calibrate.conformal(labels, c, groups=np.arange(20) % 2)
    values = fit.to_dict()
    for wrong, message in (
        ({"threshold": [1.0]}, "shape of argument `threshold`"),
        ({"threshold": 1.0}, "shape of argument `threshold`"),
        ({"threshold": [1.0, np.nan]}, "without NaN"),
        ({"per_class": True}, "shape of argument `threshold`"),
        ({"groups": [0, 0]}, "each once.*0, 0"),
        ({"groups": [0, "a"]}, "integers of 64 bits, or strings"),
        ({"randomize": 1}, "`randomize`"),
    ):
        with pytest.raises(BayesdropError, match=message):
            calibrate.ConformalSets.from_dict({**values, **wrong})


def test_means_that_are_not_finite():
    mean = np.zeros(20)
    mean[3] = np.nan
    p = cases.predictive("regression", mean)
    with pytest.raises(NonFiniteError, match="1 values"):
        calibrate.conformal(np.zeros(20), p, method="absolute")
