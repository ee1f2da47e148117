# SPDX-License-Identifier: Apache-2.0
"""Adaptive predictions, and an oracle in NumPy.

The oracle keeps every sample of a fixed number and cuts each row off by the
rule.
"""

import keras
import numpy as np
import scipy.special
import scipy.stats

import keras_bayesdrop as kbd
from tests.helpers import flat

layers = keras.layers

SEED = 11
CAP = 100
TASKS = {"regression": None, "classification": "softmax", "binary": "sigmoid"}


def predict(model, x, num_samples=CAP, **kwargs):
    settings = {"seed": SEED, "verbose": 0, "draws": "independent", **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, **flat(**settings)
    )


def model_for(task="regression", outputs=3):
    keras.utils.set_random_seed(4)
    return keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dropout(0.5),
            layers.Dense(8, activation="tanh", use_bias=False),
            layers.Dropout(0.3),
            layers.Dense(outputs, activation=TASKS[task], use_bias=False),
        ]
    )


def inputs_of(rows=23):
    """Rows of very different size, so of very different uncertainty."""
    rng = np.random.default_rng(3)
    sizes = 10.0 ** rng.uniform(-2, 1, (rows, 1))
    return (sizes * rng.normal(size=(rows, 5))).astype(np.float32)


def total_of(samples, task, noise):
    """Variance of an observation, by the law of total variance."""
    epistemic = samples.var(axis=0, ddof=1)
    if task == "regression":
        return epistemic + noise
    return epistemic + (samples * (1 - samples)).mean(axis=0)


def oracle(samples, task, tolerance, absolute=0.0, noise=0.0):
    """Samples that a row [T, ...] takes."""
    samples = samples.astype(np.float64)
    for used in range(16, len(samples), 16):
        first = samples[:used]
        error = scipy.stats.sem(first, axis=0)
        allowed = tolerance * np.sqrt(total_of(first, task, noise))
        if np.all(error <= np.maximum(allowed, absolute)):
            return used
    return len(samples)


def check(p, samples, tolerance, absolute=0.0, noise=0.0):
    """Compares each row with its first samples; returns how many it took."""
    for row in range(len(p)):
        mine = samples[:, row].astype(np.float64)
        used = oracle(mine, p.task, tolerance, absolute, noise)
        assert p.num_samples_used[row] == used, row
        mine, one = mine[:used], p[row]
        close = dict(rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(one.mean[0], mine.mean(0), **close)
        np.testing.assert_allclose(
            one.variance[0], mine.var(0, ddof=1), **close
        )
        np.testing.assert_allclose(
            one.mc_error[0], scipy.stats.sem(mine, axis=0), **close
        )
        np.testing.assert_allclose(
            one.total[0], total_of(mine, p.task, noise), **close
        )
        if p.task == "regression":
            continue
        entropies = scipy.special.entr(mine)
        if p.task == "classification":
            votes = np.bincount(mine.argmax(-1), minlength=mine.shape[-1])
            favourite = votes.max() / used
            entropies = entropies.sum(-1)
        else:
            votes = np.sum(mine >= 0.5, axis=0)
            favourite = np.maximum(votes, used - votes) / used
            entropies = entropies + scipy.special.entr(1 - mine)
        np.testing.assert_array_equal(one.vote_counts[0], votes)
        np.testing.assert_allclose(
            one.variation_ratio[0], 1 - favourite, **close
        )
        np.testing.assert_allclose(
            one.expected_entropy[0], entropies.mean(0), **close
        )
    return p.num_samples_used
