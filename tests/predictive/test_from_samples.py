# SPDX-License-Identifier: Apache-2.0
"""Predictions from anybody's samples, and without a record of their making."""

import dataclasses
import warnings

import keras
import numpy as np
import pytest
import scipy.special

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import TooLargeError
from keras_bayesdrop.predictive import Binary
from keras_bayesdrop.predictive import Classification
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import Stats
from tests.predictive.cases import CLASS_SHAPES
from tests.predictive.cases import SHAPES
from tests.predictive.cases import make_stats
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit

LEVELS = (0.1, 0.5, 0.9)
INFORMATION = (
    "predictive_entropy",
    "expected_entropy",
    "mutual_information",
    "variation_ratio",
)


def network(activation):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(16, activation="relu"),
            kbd.MCDropout(0.5),
            keras.layers.Dense(4, activation=activation),
        ]
    )


def predict(activation):
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    return kbd.predict_with_uncertainty(
        network(activation),
        x,
        40,
        seed=0,
        quantiles=LEVELS,
        return_samples=True,
        verbose=0,
    )


def assert_equal_up_to_rounding(actual, expected, information):
    assert actual.head == expected.head
    # Both are float32: a few units in the last place of the largest value.
    close = {"rtol": 2e-6, "atol": 2e-6}
    for name in (
        *("mean", "variance", "std", "mc_error", "aleatoric", "total"),
        *(INFORMATION if information else ()),
        *("quantile_values", "mean_entropy"),
    ):
        mine, other = getattr(actual, name), getattr(expected, name)
        if other is None:
            assert mine is None
            continue
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(mine, other, err_msg=name, **close)
    np.testing.assert_array_equal(actual.vote_counts, expected.vote_counts)
    np.testing.assert_allclose(
        actual.interval(0.8), expected.interval(0.8), **close
    )


@pytest.mark.parametrize("activation", [None, "softmax", "sigmoid"])
def test_equals_a_prediction_with_the_same_samples(activation):
    p = predict(activation)
    again = Predictive.from_samples(
        p.samples, head=p.head, quantiles=LEVELS, stats=p.stats
    )
    assert_equal_up_to_rounding(again, p, activation is not None)
    assert again.samples is p.samples
    assert again.stats is p.stats
    assert again.quantile_levels == LEVELS


@pytest.mark.parametrize(
    ("head", "activation"),
    [
        (Classification(from_logits=True), "softmax"),
        (Binary(from_logits=True), "sigmoid"),
    ],
)
def test_logits_are_resolved(head, activation):
    # Same weights and masks: these are the logits of the other samples.
    logits, p = predict(None).samples, predict(activation)
    again = Predictive.from_samples(logits, head, LEVELS)
    np.testing.assert_allclose(again.samples, p.samples, rtol=2e-5, atol=1e-6)
    assert again.head == p.head == dataclasses.replace(head, from_logits=False)
    np.testing.assert_allclose(again.mean, p.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(again.vote_counts, p.vote_counts)
    # The samples are probabilities now, and the head says so.
    twice = Predictive.from_samples(again.samples, again.head)
    np.testing.assert_array_equal(twice.mean, again.mean)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_logits(dtype):
    logits = np.array([[[1e4, -1e4]], [[-1e4, 1e4]]], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for head in (Classification(True), Binary(True)):
            p = Predictive.from_samples(logits, head)
            np.testing.assert_array_equal(p.samples, logits > 0)
            assert p.samples.dtype == dtype
    for head, function in (
        (Classification(True), scipy.special.softmax),
        (Binary(True), scipy.special.expit),
    ):
        some = normal((5, 3), dtype="float64") - 3.0
        expected = function(some, **({"axis": -1} if "C" in str(head) else {}))
        np.testing.assert_allclose(
            Predictive.from_samples(some, head).samples, expected, rtol=1e-14
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_moments_of_numbers(shape, dtype):
    samples = normal(shape, dtype=dtype)
    p = Predictive.from_samples(samples)
    assert p.mean.dtype == p.variance.dtype == dtype
    wide = samples.astype("float64")
    rtol = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(p.mean, wide.mean(0), rtol=rtol)
    np.testing.assert_allclose(p.variance, wide.var(0, ddof=1), rtol=rtol)
    assert p.mean_entropy is None
    assert p.vote_counts is None
    assert p.head == Regression()
    assert p.stats == Stats(num_samples=20, num_rows=shape[0])


@pytest.mark.parametrize("shape", CLASS_SHAPES)
@pytest.mark.parametrize("head", ["classification", "binary"])
def test_what_is_stored_is_what_the_samples_say(head, shape):
    p = Predictive.from_samples(simplex(shape), head)
    bare = dataclasses.replace(p, mean_entropy=None, vote_counts=None)
    few = dataclasses.replace(p, samples=None)
    for name in INFORMATION:
        np.testing.assert_allclose(
            getattr(few, name), getattr(bare, name), rtol=1e-5, atol=1e-6
        )


def test_a_variance_that_float32_does_not_hold_is_float64():
    p = Predictive.from_samples(np.float32(1e25) * normal((3,)))
    assert p.mean.dtype == np.float32
    assert p.variance.dtype == np.float64
    assert np.isfinite(p.variance).all()


def test_samples_in_a_file_stay_there(tmp_path):
    np.save(tmp_path / "samples.npy", normal((4, 2)))
    mapped = np.load(tmp_path / "samples.npy", mmap_mode="r")
    p = Predictive.from_samples(mapped, Regression(noise_precision=4.0))
    assert isinstance(p.samples, np.memmap)
    assert p.noise_precision == 4.0
    assert p.log_likelihood(np.ones((4, 2))).shape == (4,)


def test_other_numbers_become_float32():
    assert Predictive.from_samples([[1, 2], [3, 5]]).mean.dtype == np.float32


@pytest.mark.parametrize(
    ("samples", "options", "match"),
    [
        (np.ones(3), {}, r"`samples`.*\[T, rows\].*\(3,\)"),
        (np.ones((1, 3)), {}, r"at least 2 samples.*\(1, 3\)"),
        (
            np.ones((2, 3)),
            {"head": "classification"},
            r"\[T, rows, classes\].*\(2, 3\)",
        ),
        (["a", "b"], {}, "`samples`.*numbers.*<U1"),
        (np.ones((2, 3)), {"head": "ranking"}, "`head`.*ranking"),
        (np.ones((2, 3)), {"head": None}, "`head`.*None"),
        (np.ones((2, 3)), {"quantiles": [2]}, r"`quantiles`.*\[0, 1\]"),
        (
            np.ones((2, 3)),
            {"stats": make_stats(3, 3)},
            r"`samples`.*\(3, 3\).*\(2, 3\)",
        ),
        (np.ones((2, 3)), {"stats": make_stats(2, 4)}, "num_rows=3.*=4"),
        # Logits, which nobody called so.
        (normal((3,)), {"head": "binary"}, r"`samples`.*\[0, 1\].*from"),
        (normal((3, 2)), {"head": "classification"}, r"\[0, 1\]"),
        (unit((3, 4)), {"head": "classification"}, "add up to 1.*from_logits"),
    ],
)
def test_bad_samples(samples, options, match):
    with pytest.raises(BayesdropError, match=match) as error:
        Predictive.from_samples(samples, **options)
    assert "Expected" in str(error.value)
    assert "Received" in str(error.value)


# Without `stats`.


def test_samples_are_counted():
    p = Predictive(
        head="regression",
        mean=np.zeros(3),
        variance=np.ones(3),
        samples=normal((3,), 9),
    )
    assert p.stats == Stats(num_samples=9, num_rows=3)
    assert p.stats.sampled
    np.testing.assert_allclose(p.mc_error, 1 / 3)


def test_the_samples_of_each_row_are_counted():
    p = Predictive(
        head="regression",
        mean=np.zeros(2),
        variance=np.ones(2),
        num_samples_used=[4, 16],
    )
    assert p.stats.num_samples == 16
    np.testing.assert_allclose(p.mc_error, [0.5, 0.25])


def test_moments_alone_are_exact():
    p = Predictive(
        head=Regression(noise_precision=1.0),
        mean=np.zeros(2),
        variance=np.full(2, 3.0),
    )
    assert p.stats == Stats(num_samples=0, num_rows=2, method="moments")
    np.testing.assert_array_equal(p.mc_error, 0.0)
    np.testing.assert_allclose(p.quantile(0.975), 1.959964 * 3**0.5, rtol=1e-6)
    np.testing.assert_allclose(p.interval(0.95)[1], 1.959964 * 2, rtol=1e-6)
    assert p.log_likelihood(np.zeros(2)).shape == (2,)
    b = Predictive(head="binary", mean=[0.25], variance=[0.0625])
    np.testing.assert_allclose(b.aleatoric, 0.25 - 0.0625 - 0.0625)
    with pytest.raises(MissingSamplesError):
        b.quantile(0.5)


@pytest.mark.parametrize("name", ["vote_counts", "sampled_variance"])
def test_fields_that_need_a_number_of_samples(name):
    with pytest.raises(
        BayesdropError, match=r"number of samples.*Expected `stats`.*Received"
    ):
        Predictive(
            head="binary", mean=[0.5], variance=[0.1], **{name: np.ones(1)}
        )


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="`colour`"):
        Predictive(head="binary", mean=[0.5], variance=[0.1], colour="red")


def test_a_prediction_without_stats_is_saved(tmp_path):
    p = Predictive.from_samples(normal((3, 2)))
    p.save(tmp_path / "p.npz")
    again = Predictive.load(tmp_path / "p.npz")
    assert again.stats == p.stats
    np.testing.assert_array_equal(again.samples, p.samples)


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_covariance_is_that_of_numpy(shape):
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(9, 5, *shape)).astype("float32")
    p = Predictive.from_samples(samples)
    covariance = p.covariance()
    flat = samples.reshape(9, 5, -1).astype("float64")
    expected = np.stack([np.cov(flat[:, row].T) for row in range(5)])
    # A float32 mean is off by half an ulp; its square is far below an ulp.
    np.testing.assert_allclose(covariance, expected, rtol=1e-5, atol=1e-6)
    diagonal = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(diagonal, p.variance.reshape(5, -1), rtol=1e-6)
    with pytest.raises(MissingSamplesError, match="covariance"):
        dataclasses.replace(p, samples=None).covariance()


def test_covariance_that_does_not_fit_is_refused():
    p = Predictive.from_samples(np.zeros((2, 3, 200_000), "float32"))
    with pytest.raises(TooLargeError, match="3 rows of 200000 outputs"):
        p.covariance()
