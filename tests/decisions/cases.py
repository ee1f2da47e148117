# SPDX-License-Identifier: Apache-2.0
"""Predictions that the tests of decisions share."""

import keras
import numpy as np
import scipy.special

from keras_bayesdrop import MCDropout
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats


def predictive(task, samples, masks="shared", seed=0, **fields):
    """The prediction that has these samples `[T, rows, ...]`."""
    samples = np.asarray(samples)
    stats = Stats(
        num_samples=len(samples),
        num_rows=samples.shape[1],
        seed=seed,
        masks=masks,
        method="sampling",
        engine=(),
        seconds=1.0,
        samples_per_second=1.0,
        batch_size=1,
    )
    return Predictive(
        head=task,
        mean=samples.mean(axis=0),
        variance=samples.var(axis=0, ddof=1),
        stats=stats,
        samples=samples,
        **fields,
    )


def classes(samples=5, rows=6, number=3, seed=0, spread=2.0):
    """Probabilities `[samples, rows, number]` that differ among samples."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.standard_normal((samples, rows, number))
    return scipy.special.softmax(logits, axis=-1)


def network(outputs=3, activation="softmax", inputs=4, rate=0.5, name=None):
    """A small network with noise."""
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(8, activation="relu"),
            MCDropout(rate),
            keras.layers.Dense(outputs, activation=activation),
        ],
        name=name,
    )
