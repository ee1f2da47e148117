# SPDX-License-Identifier: Apache-2.0
"""Acquisition: the choice of rows to label."""

import dataclasses
import pickle

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.decisions import acquire
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Regression
from tests.decisions import cases


@pytest.fixture
def p():
    return cases.predictive("classification", cases.classes(rows=30))


@pytest.mark.parametrize(
    ("method", "quantity"),
    [
        ("bald", "mutual_information"),
        ("entropy", "predictive_entropy"),
        ("variation_ratio", "variation_ratio"),
    ],
)
def test_the_highest_scores(p, method, quantity):
    scores = getattr(p, quantity)
    chosen = acquire(p, 8, method)
    # Python's sort is stable, so equal ones stay in the order of the rows.
    expected = sorted(range(30), key=lambda i: -scores[i])[:8]
    assert list(chosen.rows) == expected
    np.testing.assert_array_equal(chosen.scores, scores[expected])
    assert chosen.method == method


def test_methods_differ_where_labels_are_noisy():
    sure_of_noise = [[0.5, 0.5]] * 4
    disagreeing = [[0.9, 0.1], [0.1, 0.9]] * 2
    p = cases.predictive(
        "classification", np.stack([sure_of_noise, disagreeing], axis=1)
    )
    assert list(acquire(p, 1, "bald").rows) == [1]
    # Both have the entropy log(2); the earlier row goes first.
    assert list(acquire(p, 1, "entropy").rows) == [0]


def test_several_labels_per_row_are_summed():
    samples = np.random.default_rng(0).uniform(size=(7, 9, 2, 2))
    p = cases.predictive("binary", samples)
    expected = p.mutual_information.sum(axis=(1, 2))
    chosen = acquire(p, 9)
    np.testing.assert_allclose(chosen.scores, np.sort(expected)[::-1])


def test_bald_of_a_regression():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(50, 6, 2)) * rng.uniform(size=(6, 2))
    p = cases.predictive(Regression(noise_precision=5.0), samples)
    chosen = acquire(p, 6)
    # Of normal variables: I = 1/2 log((variance + noise) / noise).
    variance = samples.var(axis=0, ddof=1)
    expected = (0.5 * np.log((variance + 0.2) / 0.2)).sum(axis=1)
    assert list(chosen.rows) == list(np.argsort(-expected))
    np.testing.assert_allclose(chosen.scores, np.sort(expected)[::-1])


def test_random():
    p = cases.predictive("classification", cases.classes(rows=50))
    first = acquire(p, 20, "random", seed=1).rows
    assert len(set(first)) == 20
    np.testing.assert_array_equal(acquire(p, 20, "random", seed=1).rows, first)
    assert list(acquire(p, 20, "random", seed=-2).rows) != list(first)
    counts = np.zeros(50)
    for seed in range(400):
        counts[acquire(p, 5, "random", seed=seed).rows] += 1
    # Each count is binomial: 400 tries of 0.1, deviation 6. Five of them, for
    # 50 counts.
    assert np.all(np.abs(counts - 40) < 30)
    keras.utils.set_random_seed(3)
    drawn = acquire(p, 20, "random").rows
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(acquire(p, 20, "random").rows, drawn)


def test_pickles(p):
    chosen = acquire(p, 3)
    again = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(again.rows, chosen.rows)
    assert again.method == "bald"


def test_of_a_prediction():
    model = cases.network()
    x = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
    p = kbd.predict_with_uncertainty(
        model, x, 12, return_samples=True, seed=0, verbose=0
    )
    best = acquire(p, 1).rows
    np.testing.assert_array_equal(acquire(p, 4, "batchbald").rows[:1], best)
    assert len(acquire(p, 4, "epig", targets=p[:5]).rows) == 4
    apart = kbd.predict_with_uncertainty(
        model,
        x,
        12,
        return_samples=True,
        seed=0,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
    )
    np.testing.assert_array_equal(np.shape(acquire(apart, 4).rows), (4,))
    for method, more in (("batchbald", {}), ("epig", {"targets": apart})):
        with pytest.raises(
            BayesdropError,
            match=r"one function.*Expected.*'shared'.*masks='independent'",
        ):
            acquire(apart, 4, method, **more)


def test_bad_input(p):
    for arguments, match in (
        ({"k": 31}, "`k`.*at most 30.*k=31"),
        ({"k": 0}, "at least 1.*k=0"),
        ({"k": 1.5}, "k=1.5"),
        ({"k": 1, "method": "best"}, "'bald'.*method='best'"),
        ({"k": 1, "method": "epig"}, "`targets`.*method='epig', targets=None"),
        ({"k": 1, "targets": p}, "`targets`.*method='bald'"),
        ({"k": 1, "num_configurations": 0}, "num_configurations=0"),
        ({"k": 1, "seed": "a"}, "seed='a'"),
    ):
        with pytest.raises(BayesdropError, match=match):
            acquire(p, **arguments)


def test_what_a_method_needs(p):
    bare = dataclasses.replace(p, samples=None)
    with pytest.raises(
        MissingSamplesError, match=r"samples=None.*return_samples"
    ):
        acquire(bare, 1, "batchbald")
    rng = np.random.default_rng(0)
    several = cases.predictive("binary", rng.uniform(size=(4, 5, 2)))
    with pytest.raises(BayesdropError, match=r"one label per row.*\(5, 2\)"):
        acquire(several, 1, "batchbald")
    picture = cases.predictive("classification", cases.classes()[:, :, None])
    with pytest.raises(BayesdropError, match=r"one label per row.*\(6, 1, 3\)"):
        acquire(picture, 1, "batchbald")
    plain = cases.predictive("regression", rng.normal(size=(4, 5)))
    for method in ("bald", "batchbald"):
        with pytest.raises(BayesdropError, match="noise_precision=None"):
            acquire(plain, 1, method)
    with pytest.raises(BayesdropError, match=r"not defined.*regression"):
        acquire(plain, 1, "entropy")


def test_targets_have_to_be_the_same_functions(p):
    other = cases.predictive("classification", cases.classes(), seed=1)
    with pytest.raises(BayesdropError, match="seed=0 for the pool, seed=1"):
        acquire(p, 1, "epig", targets=other)
    more = cases.predictive("classification", cases.classes(samples=6))
    with pytest.raises(BayesdropError, match=r"num_samples=5.*num_samples=6"):
        acquire(p, 1, "epig", targets=more)
    fewer = cases.predictive("classification", cases.classes(number=2))
    with pytest.raises(BayesdropError, match=r"same model.*\(3,\).*\(2,\)"):
        acquire(p, 1, "epig", targets=fewer)
