# SPDX-License-Identifier: Apache-2.0
"""Fields, rows and parts of the variance of a prediction."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from tests.predictive.cases import ARRAYS
from tests.predictive.cases import SHAPES
from tests.predictive.cases import everything
from tests.predictive.cases import make
from tests.predictive.cases import make_stats
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit


@pytest.mark.parametrize("num_samples", [2, 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_moments(shape, num_samples):
    samples = normal(shape, num_samples, dtype="float64")
    p = make("regression", samples)
    np.testing.assert_allclose(p.std, samples.std(axis=0, ddof=1))
    np.testing.assert_allclose(p.mc_error, scipy.stats.sem(samples, axis=0))
    assert p.mean.shape == p.std.shape == p.mc_error.shape == shape
    assert len(p) == shape[0]


def test_mc_error_is_the_error_of_the_mean():
    # 2000 independent predictions of 25 samples each: their means scatter
    # around 3 with variance 4 / 25. Relative standard errors: of the mean of
    # 2000 squared errors sqrt(2 / 2000) = 3.2 %, of the mean of mc_error**2
    # sqrt(2 / 24 / 2000) = 0.6 %; together 3.3 %, four times that is 13 %.
    p = make("regression", normal((2000,), 25))
    observed = np.mean((p.mean - 3.0) ** 2)
    np.testing.assert_allclose(np.mean(p.mc_error**2), observed, rtol=0.13)
    np.testing.assert_allclose(observed, 4.0 / 25, rtol=0.13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
def test_results_have_the_type_of_the_mean(task, dtype):
    maker = {"regression": normal, "classification": simplex, "binary": unit}
    p = make(task, maker[task]((5, 3), dtype=dtype))
    y = np.ones((5, 3)) if task == "binary" else np.ones(5, int)
    results = [
        *(p.mean, p.variance, p.std, p.mc_error),
        *(p.epistemic, p.aleatoric, p.total),
        *(p.quantile(0.3), p.quantile([0.1, 0.2]), *p.interval(0.8)),
    ]
    if task == "regression":
        p = dataclasses.replace(p, head=Regression(noise_precision=2.0))
        results += [*p.interval(0.8), p.log_likelihood(np.ones((5, 3)))]
        results += [p.aleatoric, p.total]
    else:
        results += [p.predictive_entropy, p.expected_entropy]
        results += [p.mutual_information, p.variation_ratio]
        results += [p.log_likelihood(y)]
    small = dataclasses.replace(p, samples=None)
    results += [*small.interval(0.8)]
    assert {str(result.dtype) for result in results} == {dtype}


def test_other_types_become_float32_and_arrays_are_not_copied():
    mean = np.ones((3, 2), "float32")
    p = Predictive(
        head="regression",
        mean=mean,
        variance=np.ones((3, 2), "float16"),
        stats=make_stats(4, 3),
        samples=np.ones((4, 3, 2), "int64"),
    )
    assert p.mean is mean
    assert p.variance.dtype == p.samples.dtype == np.float32


def test_variance_of_a_regression():
    samples = normal((5, 2), dtype="float64")
    p = make("regression", samples)
    np.testing.assert_array_equal(p.aleatoric, np.zeros((5, 2)))
    np.testing.assert_array_equal(p.epistemic, p.variance)
    np.testing.assert_array_equal(p.total, p.variance)
    noisy = make("regression", samples, noise_precision=4.0)
    np.testing.assert_array_equal(noisy.aleatoric, np.full((5, 2), 0.25))
    np.testing.assert_allclose(noisy.total, p.variance + 0.25)


@pytest.mark.parametrize("num_samples", [2, 20])
@pytest.mark.parametrize("task", ["classification", "binary"])
def test_variance_of_a_label(task, num_samples):
    samples = simplex((5, 3), num_samples, dtype="float64")
    p = make(task, samples, keep=False)
    inner = (samples * (1 - samples)).mean(axis=0)
    np.testing.assert_allclose(p.aleatoric, inner, rtol=1e-12)
    np.testing.assert_allclose(p.epistemic, samples.var(axis=0, ddof=1))
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)


def test_total_variance_of_a_label_is_that_of_draws():
    # A label drawn from a sample drawn at random. 200,000 draws of a zero or
    # one: the standard error of their variance is below
    # 0.5 * 1 / sqrt(200,000) = 0.0011. `epistemic` with T - 1 instead of T
    # adds at most 0.25 / 400; 4 standard errors and that are 0.0051.
    samples = unit((1,), 400, dtype="float64")
    p = make("binary", samples)
    rng = np.random.default_rng(1)
    draws = rng.uniform(size=200_000) < rng.choice(samples[:, 0], 200_000)
    assert float(p.total[0]) == pytest.approx(draws.var(), abs=0.0051)


# Rows.


@pytest.mark.parametrize("task", ["regression", "classification", "binary"])
@pytest.mark.parametrize(
    "rows",
    [
        slice(1, 4),
        slice(None, None, -2),
        [3, 0, 3],
        np.array([4, 1]),
        np.array([True, False, True, False, False]),
        [False, True, False, False, True],
        [],
        slice(0, 0),
        np.int64(2),
        -1,
    ],
    ids=str,
)
def test_selecting_rows(task, rows):
    p = everything(task)
    part = p[rows]
    index = rows if isinstance(rows, slice) else np.atleast_1d(rows)
    if np.size(index) == 0:
        index = slice(0, 0)
    expected = p.mean[index]
    assert len(part) == part.stats.num_rows == len(expected)
    assert part.stats.num_samples == p.stats.num_samples
    for name in ARRAYS:
        array = getattr(p, name)
        if array is None:
            assert getattr(part, name) is None
            continue
        many = name in ("samples", "quantile_values")
        wanted = array[:, index] if many else array[index]
        np.testing.assert_array_equal(getattr(part, name), wanted)
    np.testing.assert_array_equal(part.std, p.std[index])
    np.testing.assert_array_equal(part.quantile(0.2), p.quantile(0.2)[index])
    assert repr(part).startswith("Predictive(")


def test_no_rows():
    p = make("regression", normal((3, 2)), noise_precision=1.0)[:0]
    assert p.log_likelihood(np.ones((0, 2))).shape == (0,)
    assert p.interval(0.9)[0].shape == (0, 2)
    p = make("classification", simplex((3, 2)))[:0]
    assert p.log_likelihood([]).shape == (0,)
    assert p.mutual_information.shape == p.variation_ratio.shape == (0,)
    assert "mean_std=nan" in repr(p)


def test_a_slice_is_a_view():
    p = everything("binary")
    assert np.shares_memory(p[1:3].samples, p.samples)


def test_iterating_gives_rows():
    p = everything("regression")
    rows = list(p)
    assert [len(row) for row in rows] == [1] * 5
    np.testing.assert_array_equal(
        np.concatenate([row.mean for row in rows]), p.mean
    )


def test_bad_rows():
    p = everything("regression")
    for rows in ("a", [0.5], (slice(0, 1), 0, 0), np.ones((5, 3), bool), True):
        with pytest.raises(BayesdropError, match="Invalid selection of rows"):
            p[rows]
    with pytest.raises(BayesdropError, match=r"length 5.*length 4"):
        p[[True] * 4]
    with pytest.raises(IndexError):
        p[5]


def test_repr():
    text = repr(make("regression", np.array([[[0.0]], [[2.0]]])))
    assert text == (
        "Predictive(task='regression', rows=1, outputs=(1,), num_samples=2 "
        "(kept), mean_std=1.414)"
    )
    assert "(not kept)" in repr(make("binary", unit((3,)), keep=False))


def test_is_frozen():
    p = make("regression", normal((3,)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.mean = np.zeros(3)


# Parts that do not fit together.


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"head": "ranking"}, "`head`.*Expected one of.*head='ranking'"),
        ({"mean": np.float32(1)}, r"`mean`.*at least 1 axes.*\(\)"),
        ({"mean": ["a"] * 3}, "`mean`.*numbers.*<U1"),
        ({"variance": np.ones(4)}, r"`variance`.*\(3,\).*\(4,\)"),
        ({"samples": np.ones((2, 4))}, r"`samples`.*\(2, 3\).*\(2, 4\)"),
        ({"samples": np.ones((5, 3))}, r"`samples`.*\(2, 3\).*\(5, 3\)"),
        ({"quantile_levels": [0.5]}, "together.*quantile_levels"),
        ({"quantile_values": np.ones((1, 3))}, "together.*levels=None"),
        (
            {"quantile_levels": [0.5], "quantile_values": np.ones((2, 3))},
            r"`quantile_values`.*\(1, 3\).*\(2, 3\)",
        ),
        ({"stats": make_stats(1, 3)}, "at least 2.*num_samples=1"),
        ({"stats": make_stats(2, 4)}, "num_rows=3.*num_rows=4"),
        ({"head": None}, "`head`.*Expected one of.*head=None"),
        ({"task": "binary"}, "no argument `task`.*head='binary'"),
        (
            {"noise_precision": 1.0},
            r"no argument `noise_precision`.*head=Regression\(noise_precision",
        ),
        ({"head": "binary", "mean": np.full(3, 1.5)}, r"\[0, 1\].*1.5"),
        ({"head": "binary", "mean": np.full(3, -0.5)}, r"\[0, 1\].*-0.5"),
        ({"head": "binary", "mean": np.full(3, math.nan)}, r"\[0, 1\].*nan"),
        ({"head": "classification"}, r"at least 2 axes.*\(3,\)"),
        (
            {"head": "binary", "mean_entropy": np.ones((3, 2))},
            r"`mean_entropy`.*\(3,\).*\(3, 2\)",
        ),
        (
            {"head": "binary", "vote_counts": np.ones((3, 2))},
            r"`vote_counts`.*\(3,\).*\(3, 2\)",
        ),
        (
            {"head": "binary", "vote_counts": ["a", "b", "c"]},
            "`vote_counts`.*numbers",
        ),
    ],
)
def test_parts_that_do_not_fit(changes, match):
    fields = {
        "head": "regression",
        "mean": np.ones(3, "float32"),
        "variance": np.ones(3, "float32"),
        "stats": make_stats(2, 3),
    }
    Predictive(**fields)
    with pytest.raises(BayesdropError, match=match) as error:
        Predictive(**{**fields, **changes})
    assert "Expected" in str(error.value)
    assert "Received" in str(error.value)
