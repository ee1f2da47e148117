# SPDX-License-Identifier: Apache-2.0
"""Predictions and labels that the tests of the metrics share."""

import dataclasses

import numpy as np
import scipy.special

from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import Stats


def classes(rows=200, seed=0):
    """Probabilities `[rows, 4]`, over-confident, and labels `[rows]`."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, 4))
    noisy = logits + rng.gumbel(size=(rows, 4))
    return scipy.special.softmax(3 * logits, axis=1), noisy.argmax(axis=1)


def binary(rows=200, seed=0):
    """Probabilities `[rows]`, over-confident, and labels `[rows]`."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal(rows)
    labels = rng.uniform(size=rows) < scipy.special.expit(logits)
    return scipy.special.expit(3 * logits), labels.astype(int)


def predictive(task, mean, **fields):
    """A prediction with this mean."""
    stats = Stats(
        num_samples=10,
        num_rows=len(mean),
        seed=0,
        masks="shared",
        method="sampling",
        engine=(),
        seconds=1.0,
        samples_per_second=1.0,
        batch_size=1,
    )
    return Predictive(
        head=task,
        mean=mean,
        variance=np.zeros_like(mean),
        stats=stats,
        **fields,
    )


def of_samples(samples, noise_precision=None, keep=True):
    """A regression with these samples `[T, rows, outputs]`."""
    samples = np.asarray(samples)
    p = predictive("regression", samples.mean(axis=0))
    return dataclasses.replace(
        p,
        variance=samples.var(axis=0, ddof=1),
        stats=dataclasses.replace(p.stats, num_samples=len(samples)),
        samples=samples if keep else None,
        head=Regression(noise_precision=noise_precision),
    )


def regression(shape=(20,), noise_precision=None, samples=12, keep=True):
    """A regression, and targets that are more scattered than it knows."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((samples, *shape)) + rng.standard_normal(shape)
    y = draws[0] + rng.standard_normal(shape)
    return of_samples(draws, noise_precision, keep), y
