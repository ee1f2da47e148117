# SPDX-License-Identifier: Apache-2.0
"""EPIG against sums over all pairs of labels."""

import itertools
import math

import numpy as np
import pytest

from keras_bayesdrop.decisions import _information
from keras_bayesdrop.decisions import acquire
from keras_bayesdrop.predictive import Regression
from tests.decisions import cases


def information_of_a_pair(p, q):
    """I(y; y') of two labels with distributions `[T, classes]`."""
    total = 0.0
    for y, other in itertools.product(range(p.shape[1]), repeat=2):
        joint = float(np.mean(p[:, y] * q[:, other]))
        apart = float(np.mean(p[:, y])) * float(np.mean(q[:, other]))
        total += joint * math.log(joint / apart)
    return total


@pytest.mark.parametrize("task", ["classification", "binary"])
@pytest.mark.parametrize("block", [2**22, 20])
def test_against_all_pairs(task, block, monkeypatch):
    monkeypatch.setattr(_information, "_BLOCK", block)
    if task == "binary":
        p = np.random.default_rng(0).uniform(size=(6, 12))
        both = np.stack([1 - p, p], axis=2)
    else:
        p = both = cases.classes(samples=6, rows=12)
    everything = cases.predictive(task, p)
    pool, targets = everything[:7], everything[7:]
    chosen = acquire(pool, 7, "epig", targets=targets)
    brute = [
        np.mean(
            [
                information_of_a_pair(both[:, i], both[:, j])
                for j in range(7, 12)
            ]
        )
        for i in range(7)
    ]
    assert list(chosen.rows) == list(np.argsort(brute)[::-1])
    np.testing.assert_allclose(chosen.scores, np.sort(brute)[::-1], rtol=1e-9)


@pytest.mark.parametrize("block", [2**22, 10])
def test_regression_against_determinants(block, monkeypatch):
    monkeypatch.setattr(_information, "_BLOCK", block)
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(9, 11, 2)).cumsum(axis=1)
    everything = cases.predictive(Regression(noise_precision=2.0), samples)
    chosen = acquire(everything[:6], 6, "epig", targets=everything[6:])

    def information(i, j):
        total = 0.0
        for output in range(2):
            c = np.cov(samples[:, [i, j], output].T) + np.eye(2) / 2.0
            total += 0.5 * math.log(c[0, 0] * c[1, 1] / np.linalg.det(c))
        return total

    brute = [
        np.mean([information(i, j) for j in range(6, 11)]) for i in range(6)
    ]
    assert list(chosen.rows) == list(np.argsort(brute)[::-1])
    np.testing.assert_allclose(chosen.scores, np.sort(brute)[::-1], rtol=1e-9)


def test_only_what_matters_for_the_targets():
    """BALD takes the most informative row, EPIG the most useful one."""
    rng = np.random.default_rng(0)
    apart = rng.uniform(size=(200, 1)) < 0.5
    here = np.where(rng.uniform(size=(200, 1)) < 0.5, 0.8, 0.2)
    p = np.concatenate([np.where(apart, 0.99, 0.01), here, here], axis=1)
    everything = cases.predictive("binary", p)
    pool, targets = everything[:2], everything[2:]
    assert list(acquire(pool, 1, "bald").rows) == [0]
    assert list(acquire(pool, 1, "epig", targets=targets).rows) == [1]
