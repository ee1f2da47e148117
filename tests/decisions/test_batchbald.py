# SPDX-License-Identifier: Apache-2.0
"""BatchBALD against sums over all configurations of labels."""

import itertools
import math

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop.decisions import _information
from keras_bayesdrop.decisions import acquire
from keras_bayesdrop.predictive import Regression
from tests.decisions import cases


def configuration_probabilities(p, rows):
    """All labels of some rows, `{labels: [T] of probabilities}`."""
    classes = range(p.shape[2])
    return {
        labels: np.prod(p[:, rows, labels], axis=1)
        for labels in itertools.product(classes, repeat=len(rows))
    }


def joint_information(p, rows):
    """I(labels; sample), by enumeration."""
    each = configuration_probabilities(p, rows).values()
    entropy = sum(-q.mean() * math.log(q.mean()) for q in each)
    return entropy - scipy.special.entr(p[:, rows]).sum(axis=(1, 2)).mean()


def greedy(value, rows, k):
    """The rows that add most, one by one, and the value of each batch."""
    chosen, values = [], []
    for _ in range(k):
        left = [i for i in range(rows) if i not in chosen]
        best = max(left, key=lambda i: value([*chosen, i]))
        chosen.append(best)
        values.append(value(chosen))
    return chosen, values


@pytest.mark.parametrize("seed", range(4))
def test_exact_against_enumeration(seed):
    p = cases.classes(samples=5, rows=7, number=3, seed=seed)
    chosen = acquire(cases.predictive("classification", p), 4, "batchbald")
    rows, values = greedy(lambda rows: joint_information(p, rows), 7, 4)
    assert list(chosen.rows) == rows
    np.testing.assert_allclose(np.cumsum(chosen.scores), values, rtol=1e-10)


def test_binary_against_enumeration():
    p = np.random.default_rng(0).uniform(size=(6, 8, 1))
    chosen = acquire(cases.predictive("binary", p), 5, "batchbald")
    both = np.concatenate([1 - p, p], axis=2)
    rows, values = greedy(lambda rows: joint_information(both, rows), 8, 5)
    assert list(chosen.rows) == rows
    np.testing.assert_allclose(np.cumsum(chosen.scores), values, rtol=1e-10)


def test_near_the_best_batch():
    p = cases.classes(samples=6, rows=8, number=2, seed=3)
    chosen = acquire(cases.predictive("classification", p), 3, "batchbald")
    best = max(
        joint_information(p, list(rows))
        for rows in itertools.combinations(range(8), 3)
    )
    assert (1 - 1 / math.e) * best <= chosen.scores.sum() <= best + 1e-12


def test_a_row_is_not_taken_twice_over():
    """BALD takes all copies of the most informative row."""
    p = cases.classes(samples=40, rows=6, number=2, seed=1, spread=4.0)
    pool = cases.predictive("classification", np.repeat(p, 3, axis=1))
    bald = acquire(pool, 3, "bald").rows // 3
    batch = acquire(pool, 3, "batchbald").rows // 3
    assert len(set(bald)) == 1
    assert len(set(batch)) == 3


def test_drawn_configurations_against_enumeration():
    p = cases.classes(samples=4, rows=9, number=4, seed=0)
    pool = cases.predictive("classification", p)
    # 4**4 configurations are enumerated; the 4**5 before the sixth row are
    # not.
    chosen = acquire(pool, 6, "batchbald", seed=0, num_configurations=1000)
    rows, values = greedy(lambda rows: joint_information(p, rows), 9, 5)
    assert list(chosen.rows[:5]) == rows
    exact = np.cumsum(chosen.scores)
    np.testing.assert_allclose(exact[:5], values, rtol=1e-10)
    # What is averaged over 1000 configurations, and its deviation. Drawing as
    # many from each sample makes the error smaller, not larger.
    last = p[:, chosen.rows[5]]
    weight, term = [], []
    for q in configuration_probabilities(p, rows).values():
        pair = (q[:, None] * last).mean(axis=0)
        weight.append(q.mean())
        term.append(-np.sum(pair / q.mean() * np.log(pair)))
    mean = np.average(term, weights=weight)
    deviation = np.sqrt(np.average((term - mean) ** 2, weights=weight))
    truth = joint_information(p, [*rows, chosen.rows[5]])
    noise = scipy.special.entr(p[:, chosen.rows]).sum(axis=(1, 2)).mean()
    assert mean - noise == pytest.approx(truth)
    assert deviation > 0.1
    error = abs(exact[5] - truth)
    assert 0 < error < 4 * deviation / math.sqrt(1000)


def test_drawn_configurations_have_no_bias():
    p = cases.classes(samples=3, rows=5, number=2, seed=2)
    estimates = []
    for seed in range(500):
        generator = np.random.default_rng(seed)
        known = _information._none(3)
        # Two labels are enumerated; four are more than three, so that the
        # second row makes draws of the first, and the third adds to them.
        for chosen in ([0], [0, 1], [0, 1, 2]):
            known = _information.extend(p, known, chosen, 3, generator)
        assert list(known.drawn_from) == [0, 1, 2]
        estimates.append(_information.joint_entropies(p, known)[3:])
    noise = scipy.special.entr(p).sum(axis=2).mean(axis=0)
    truth = [
        joint_information(p, [0, 1, 2, i]) + noise[[0, 1, 2, i]].sum()
        for i in (3, 4)
    ]
    error = np.std(estimates, axis=0, ddof=1) / math.sqrt(500)
    assert np.all(error < 0.05)
    assert np.all(np.abs(np.mean(estimates, axis=0) - truth) < 4 * error)


def test_is_repeatable():
    pool = cases.predictive("classification", cases.classes(rows=20, seed=5))
    first, same, other = (
        acquire(pool, 8, "batchbald", seed=seed, num_configurations=50)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.rows, same.rows)
    np.testing.assert_array_equal(first.scores, same.scores)
    assert np.any(first.scores != other.scores)


def test_large_batches_do_not_underflow():
    # The probability of 400 labels is about 1e-400.
    p = cases.classes(samples=3, rows=400, number=10, spread=0.3)
    pool = cases.predictive("classification", p)
    chosen = acquire(pool, 400, "batchbald", seed=0, num_configurations=30)
    assert sorted(chosen.rows) == list(range(400))
    # So many labels tell which of three samples it is. The logarithm of each
    # probability deviates by about 0.3, that of 400 labels by 6, and the mean
    # over 30 draws by 1.1; four times that.
    assert abs(chosen.scores.sum() - math.log(3)) < 4.4


def test_certain_labels_tell_nothing():
    p = np.zeros((3, 4, 2))
    p[..., 0] = 1.0
    chosen = acquire(cases.predictive("classification", p), 4, "batchbald")
    assert list(chosen.rows) == [0, 1, 2, 3]
    np.testing.assert_array_equal(chosen.scores, np.zeros(4))


@pytest.mark.parametrize("outputs", [1, 2])
def test_regression_against_determinants(outputs):
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(12, 9, outputs)) @ np.diag([1.0, 0.3][:outputs])
    samples = samples + samples[:, ::-1]  # Rows that belong together.
    p = cases.predictive(Regression(noise_precision=3.0), samples)
    chosen = acquire(p, 6, "batchbald")

    def value(rows):
        total = 0.0
        for output in range(outputs):
            c = np.cov(samples[:, rows, output].T).reshape(len(rows), -1)
            total += np.linalg.slogdet(np.eye(len(rows)) + 3.0 * c)[1] / 2
        return total

    rows, values = greedy(value, 9, 6)
    assert list(chosen.rows) == rows
    np.testing.assert_allclose(np.cumsum(chosen.scores), values, rtol=1e-9)
    np.testing.assert_allclose(chosen.scores[0], acquire(p, 1).scores[0])
