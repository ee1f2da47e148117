# SPDX-License-Identifier: Apache-2.0
"""Metrics by row counts equal the metrics of resampled rows."""

import numpy as np
import pytest
import scipy.stats

from keras_bayesdrop import Binary
from keras_bayesdrop import Classification
from keras_bayesdrop import Predictive
from keras_bayesdrop import Regression
from keras_bayesdrop import metrics
from keras_bayesdrop.metrics import _bootstrap
from keras_bayesdrop.metrics import _statistics
from keras_bayesdrop.metrics._measures import measures_of

ROWS = 40


def numbers(outputs=(1,), tau=4.0, samples=12, learned=False):
    rng = np.random.default_rng(3)
    drawn = rng.normal(size=(samples, ROWS, *outputs))
    y = rng.normal(size=(ROWS, *outputs))
    if learned:
        noise = rng.uniform(0.1, 2.0, size=drawn.shape)
        p = Predictive.from_samples(
            drawn, "heteroscedastic", noise_samples=noise
        )
        return p, y
    return Predictive.from_samples(drawn, Regression(noise_precision=tau)), y


def classes(labels=(), classes=4):
    rng = np.random.default_rng(4)
    drawn = rng.dirichlet(np.ones(classes), size=(12, ROWS, *labels))
    # Ties: of uncertainty, of confidence and of rows as a whole.
    drawn[:, 1::4] = drawn[:, ::4]
    y = rng.integers(classes, size=(ROWS, *labels))
    return Predictive.from_samples(drawn, Classification()), y


def binary(outputs=(2,)):
    rng = np.random.default_rng(5)
    drawn = rng.uniform(size=(12, ROWS, *outputs))
    y = rng.integers(2, size=(ROWS, *outputs))
    return Predictive.from_samples(drawn, Binary()), y


CASES = {
    "numbers": numbers(),
    "no noise": numbers(tau=None),
    "several numbers": numbers((3,)),
    "a grid of numbers": numbers((2, 3)),
    "learned noise": numbers((2,), learned=True),
    "classes": classes(),
    "many labels": classes((3,)),
    "binary": binary(),
    "one label": binary((1,)),
}


def rank_correlation(y, p):
    error = np.abs(p.mean - y).reshape(len(p), -1).mean(axis=1)
    total = p.total.reshape(len(p), -1).mean(axis=1)
    return scipy.stats.spearmanr(error, total).statistic


def flat(values):
    return np.asarray(values).reshape(-1)


def losses(y, p):
    if p.head.observation == "number":
        each = np.square(p.mean - y)
    elif p.head.observation == "class":
        each = p.mean.argmax(-1) != y
    else:
        each = (p.mean >= 0.5) != (y == 1)
    return np.asarray(each)


def by_row(p, values):
    return np.asarray(values, float).reshape(len(p), -1).mean(axis=1)


def uncertainty(p):
    name = "total" if p.head.observation == "number" else "predictive_entropy"
    return getattr(p, name)


def confidence(p):
    return (
        p.mean.max(-1)
        if p.head.observation == "class"
        else np.maximum(p.mean, 1 - p.mean)
    )


# Each metric by the public functions, or by its definition.
BY_HAND = {
    "root_mean_squared_error": metrics.root_mean_squared_error,
    "mean_absolute_error": lambda y, p: np.mean(np.abs(p.mean - y)),
    "negative_log_likelihood": metrics.negative_log_likelihood,
    "crps": metrics.crps,
    "interval_coverage": metrics.interval_coverage,
    "interval_width": lambda y, p: metrics.interval_width(p),
    "interval_score": metrics.interval_score,
    "miscalibration_area": metrics.miscalibration_area,
    "sharpness": lambda y, p: metrics.sharpness(p),
    "error_correlation": rank_correlation,
    "aurc": lambda y, p: metrics.aurc(
        by_row(p, losses(y, p)), by_row(p, uncertainty(p))
    ),
    "excess_aurc": lambda y, p: metrics.excess_aurc(
        by_row(p, losses(y, p)), by_row(p, uncertainty(p))
    ),
    "epistemic": lambda y, p: np.mean(p.epistemic),
    "aleatoric": lambda y, p: np.mean(p.aleatoric),
    "accuracy": metrics.accuracy,
    "confidence": lambda y, p: np.mean(confidence(p)),
    "overconfidence": lambda y, p: (
        np.mean(confidence(p)) - metrics.accuracy(y, p)
    ),
    "brier_score": metrics.brier_score,
    "expected_calibration_error": metrics.expected_calibration_error,
    "mass_calibration_error": lambda y, p: metrics.expected_calibration_error(
        y, p, binning="mass"
    ),
    "uncertainty_auroc": lambda y, p: metrics.uncertainty_auroc(
        flat(losses(y, p)), flat(uncertainty(p))
    ),
    "predictive_entropy": lambda y, p: np.mean(p.predictive_entropy),
    "expected_entropy": lambda y, p: np.mean(p.expected_entropy),
    "mutual_information": lambda y, p: np.mean(p.mutual_information),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_functions(case):
    p, y = CASES[case]
    measures, undefined = measures_of(y, p)
    for name, measure in measures.items():
        assert measure.value == pytest.approx(
            BY_HAND[name](y, p), rel=1e-12, abs=1e-14
        ), name
    missing = {"negative_log_likelihood", "aleatoric"}
    assert set(undefined) == (missing if case == "no noise" else set())


def test_every_metric_is_measured():
    measured = {
        name for p, y in CASES.values() for name in measures_of(y, p)[0]
    }
    assert measured == set(BY_HAND)


@pytest.mark.parametrize("case", CASES)
def test_counts_equal_plain_resampling(case):
    p, y = CASES[case]
    measures, _ = measures_of(y, p)
    rng = np.random.default_rng(1)
    rows = [np.arange(ROWS), *rng.integers(ROWS, size=(6, ROWS))]
    counts = np.stack([np.bincount(r, minlength=ROWS) for r in rows])
    for name, measure in measures.items():
        actual = measure.statistic(counts.astype(float))
        desired = [BY_HAND[name](y[r], p[r]) for r in rows]
        # Sums of at most 240 terms, in another order.
        np.testing.assert_allclose(
            actual, desired, rtol=1e-9, atol=1e-12, err_msg=name
        )


def test_only_the_metrics_that_are_asked_for():
    p, y = CASES["classes"]
    measures, _ = measures_of(y, p, names={"accuracy", "crps"})
    assert set(measures) == {"accuracy"}


def test_infinite_rows_count_only_where_they_are_taken():
    mean = _statistics.Mean([1.0, np.inf, 3.0])
    counts = np.array([[2.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(mean(counts), [5 / 3, np.inf])
    assert _bootstrap.percentile_interval(
        np.array([1.0, np.inf, 2.0]), 0.9
    ) == (1.0, np.inf)


def test_a_resample_without_errors_has_no_auroc():
    auroc = _statistics.Auroc(
        np.array([True, False, False]), np.array([0.9, 0.1, 0.2])
    )
    values = auroc(np.array([[1.0, 1.0, 1.0], [0.0, 2.0, 1.0]]))
    np.testing.assert_array_equal(values, [1.0, np.nan])
    assert _bootstrap.percentile_interval(values, 0.9) == (1.0, 1.0)


def test_resamples_draw_as_many_rows_and_do_not_depend_on_the_memory(
    monkeypatch,
):
    class Counts:
        size = ROWS

        def __call__(self, counts):
            assert (counts.sum(axis=1) == ROWS).all()
            shapes.append(counts.shape)
            return counts[:, 0]

    shapes = []
    many = _bootstrap.resampled({"first": Counts()}, ROWS, 700)["first"]
    assert shapes == [(700, ROWS)]
    # Poisson(1), nearly: mean 1, variance 1 - 1 / n; 4 standard errors.
    assert abs(many.mean() - 1) < 4 / np.sqrt(700)
    monkeypatch.setattr(_bootstrap, "_NUMBERS", 100 * ROWS)
    shapes.clear()
    few = _bootstrap.resampled({"first": Counts()}, ROWS, 700)["first"]
    assert shapes == [(100, ROWS)] * 7
    np.testing.assert_array_equal(few, many)


def _share_covered(truth, simulate, repetitions=150):
    """Share of simulated data sets whose 90 % interval holds the truth."""
    covered = dict.fromkeys(truth, 0)
    rng = np.random.default_rng(0)
    for _ in range(repetitions):
        p, y = simulate(rng)
        measures, _ = measures_of(y, p, names=truth)
        ends = _bootstrap.intervals(measures, len(p), 200, 0.9)
        for name, (low, high) in ends.items():
            covered[name] += low <= truth[name] <= high
    return {name: count / repetitions for name, count in covered.items()}


# A share of 150 repetitions at 0.9 has the standard deviation 0.024, and the
# bootstrap itself is off by some hundredths at these sizes: 0.82 to 0.97.


def test_intervals_of_numbers_cover():
    def simulate(rng):
        # The model says std 1, the truth is 1.5.
        p = Predictive(
            head=Regression(noise_precision=1.0),
            mean=np.zeros((150, 1)),
            variance=np.zeros((150, 1)),
        )
        return p, rng.normal(scale=1.5, size=(150, 1))

    normal = scipy.stats.norm(scale=1.5)
    z = scipy.stats.norm.ppf(0.95)
    levels = np.linspace(0.0005, 0.9995, 1000)
    inside = 1 - 2 * normal.sf(scipy.stats.norm.ppf((1 + levels) / 2))
    covered = _share_covered(
        {
            "root_mean_squared_error": 1.5,
            "mean_absolute_error": 1.5 * np.sqrt(2 / np.pi),
            "negative_log_likelihood": (np.log(2 * np.pi) + 1.5**2) / 2,
            "interval_coverage": 1 - 2 * normal.sf(z),
            "miscalibration_area": np.mean(np.abs(levels - inside)),
        },
        simulate,
    )
    for name, share in covered.items():
        assert 0.82 <= share <= 0.97, (name, share)


def _says_too_much(rng, rows, gap):
    """The model says between 0.6 and 1, and is right less often."""
    said = rng.uniform(0.6, 1.0, size=(rows, 1))
    p = Predictive(head=Binary(), mean=said, variance=0 * said)
    return p, rng.uniform(size=said.shape) < said - gap


def test_intervals_of_classes_cover():
    covered = _share_covered(
        {
            "accuracy": 0.65,
            "overconfidence": 0.15,
            "expected_calibration_error": 0.15,
        },
        lambda rng: _says_too_much(rng, 300, 0.15),
    )
    for name, share in covered.items():
        assert 0.82 <= share <= 0.97, (name, share)


def test_intervals_in_bins_of_equal_mass_cover():
    covered = _share_covered(
        {"mass_calibration_error": 0.15},
        lambda rng: _says_too_much(rng, 750, 0.15),
        60,
    )
    # 60 repetitions: the standard deviation is 0.04.
    assert covered["mass_calibration_error"] >= 0.78, covered


def test_a_calibrated_model_may_have_no_calibration_error():
    """Percentiles of resamples never reach 0."""
    names = ("expected_calibration_error", "mass_calibration_error")
    covered = _share_covered(
        dict.fromkeys(names, 0.0),
        lambda rng: _says_too_much(rng, 300, 0.0),
        60,
    )
    assert min(covered.values()) >= 0.8, covered


def test_calibrated_intervals_may_have_no_area():
    def simulate(rng):
        mean, variance = np.zeros((100, 1)), np.ones((100, 1))
        p = Predictive(head=Regression(), mean=mean, variance=variance)
        return p, rng.normal(size=mean.shape)

    covered = _share_covered({"miscalibration_area": 0.0}, simulate, 60)
    assert covered["miscalibration_area"] >= 0.8, covered


def test_chance_is_that_of_a_calibrated_model():
    rng = np.random.default_rng(2)
    for name in ("expected_calibration_error", "mass_calibration_error"):
        p, y = _says_too_much(rng, 200, 0.0)
        statistic = measures_of(y, p, names={name})[0][name].statistic
        drawn = [statistic.by_chance(rng) for _ in range(200)]
        actual = [
            BY_HAND[name](rng.uniform(size=p.mean.shape) < p.mean, p)
            for _ in range(200)
        ]
        # The same distribution: p-values below 1e-3 are one in 1,000.
        assert scipy.stats.ks_2samp(drawn, actual).pvalue > 1e-3, name
