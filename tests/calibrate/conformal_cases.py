# SPDX-License-Identifier: Apache-2.0
"""Predictions for the tests of conformal prediction, and their coverage."""

import numpy as np
import scipy.special

from keras_bayesdrop import calibrate
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


def sure_classification(rng, rows):
    """A model that is right more often than the level."""
    p, y = classification(rng, rows)
    likeliest = p.mean.argmax(axis=1)
    y = np.where(rng.uniform(size=rows) < 0.96, likeliest, y)
    return p, y


def binary(rng, rows):
    logits = rng.standard_normal(rows)
    y = rng.uniform(size=rows) < scipy.special.expit(logits)
    return cases.predictive("binary", scipy.special.expit(3 * logits)), y


def sure_binary(rng, rows):
    """A model that is right more often than the level."""
    logits = 4 * rng.standard_normal(rows)
    y = rng.uniform(size=rows) < scipy.special.expit(6 * logits)
    return cases.predictive("binary", scipy.special.expit(logits)), y


def accuracy(p, y):
    likeliest = p.mean >= 0.5 if p.mean.ndim == 1 else p.mean.argmax(axis=1)
    return np.mean(likeliest == y)


def mean_coverage(case, covered, **options):
    """Mean over the repetitions, each with rows and draws of its own."""
    rng = np.random.default_rng(0)
    result = []
    for seed in range(REPETITIONS):
        # Split after drawing, so that all rows are of one population.
        p, y = case(rng, CALIBRATION + TEST)
        fit = calibrate.conformal(
            y[:CALIBRATION], p[:CALIBRATION], LEVEL, seed=seed, **options
        )
        result.append(np.mean(covered(fit, p[CALIBRATION:], y[CALIBRATION:])))
    return np.mean(result)


def in_interval(fit, p, y, **options):
    lower, upper = fit.intervals(p, **options)
    return (lower <= y) & (y <= upper)


def in_set(fit, p, y, **options):
    return fit.sets(p, **options)[np.arange(len(y)), y.astype(int)]
