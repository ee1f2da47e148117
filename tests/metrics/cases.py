# SPDX-License-Identifier: Apache-2.0
"""Predictions and labels that the tests of the metrics share."""

import numpy as np
import scipy.special

from keras_bayesdrop.predictive import Predictive
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
    """A prediction with the given mean."""
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
        task=task,
        mean=mean,
        variance=np.zeros_like(mean),
        stats=stats,
        **fields,
    )
