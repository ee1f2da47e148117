# SPDX-License-Identifier: Apache-2.0
"""Predictions to draw, computed from known samples."""

import numpy as np

from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import Stats


def stats(samples, **changes):
    fields = {
        "num_samples": len(samples),
        "num_rows": samples.shape[1],
        "seed": 0,
        "masks": "shared",
        "method": "sampling",
        "engine": (),
        "seconds": 1.0,
        "samples_per_second": 1.0,
        "batch_size": 32,
    }
    return Stats(**{**fields, **changes})


def predictive(samples, task, keep=True, masks="shared", tau=None):
    """Returns the prediction of samples [T, rows, outputs]."""
    samples = np.asarray(samples, np.float64)
    return Predictive(
        head=task if tau is None else Regression(noise_precision=tau),
        mean=samples.mean(axis=0),
        variance=samples.var(axis=0, ddof=1),
        stats=stats(samples, masks=masks),
        samples=samples if keep else None,
    )


def regression(rows=40, count=25, outputs=1, seed=0, **options):
    """Returns a prediction of lines of random slope and height."""
    random = np.random.default_rng(seed)
    x = np.linspace(-1.0, 1.0, rows)[:, np.newaxis]
    slope, height = random.normal(size=(2, count, 1, outputs))
    return predictive(slope * x + 0.1 * height, "regression", **options)


def classification(rows=60, classes=4, count=25, seed=0, **options):
    """Returns a prediction of probabilities of all sizes."""
    random = np.random.default_rng(seed)
    common = 3.0 * random.normal(size=(rows, classes))
    logits = common + random.normal(size=(count, rows, classes))
    weights = np.exp(logits)
    p = weights / weights.sum(axis=-1, keepdims=True)
    return predictive(p, "classification", **options)


def binary(rows=60, count=25, seed=0, **options):
    """Returns a prediction of one probability a row."""
    random = np.random.default_rng(seed)
    logits = 2.0 * random.normal(size=rows) + random.normal(size=(count, rows))
    return predictive(1 / (1 + np.exp(-logits[..., None])), "binary", **options)


def segmentation(rows=2, size=(6, 9), classes=3, count=8, seed=0, **options):
    """Returns a prediction of a class for each pixel."""
    random = np.random.default_rng(seed)
    logits = 2.0 * random.normal(size=(rows, *size, classes))
    weights = np.exp(logits + random.normal(size=(count, *logits.shape)))
    p = weights / weights.sum(axis=-1, keepdims=True)
    return Predictive.from_samples(p, "classification", **options)


def heteroscedastic(shape=(40, 1), count=25, seed=0):
    """Returns a prediction of lines, with noise that grows along the rows."""
    random = np.random.default_rng(seed)
    rows = np.linspace(-1.0, 1.0, shape[0]).reshape(-1, *(1,) * len(shape[1:]))
    samples = rows * random.normal(size=(count, 1, *shape[1:]))
    spread = random.normal(size=(count, 1, *shape[1:]))
    noise = np.exp(2.0 * rows - 1.0 + 0.2 * spread)
    return Predictive.from_samples(
        samples, "heteroscedastic", None, stats(samples), noise_samples=noise
    )


def drawn_labels(p, seed=1):
    """Returns class numbers as a calibrated prediction draws them."""
    random = np.random.default_rng(seed)
    below = np.cumsum(p.mean, axis=-1) < random.uniform(size=(len(p), 1))
    return np.minimum(below.sum(axis=-1), p.mean.shape[-1] - 1)


def legend_texts(ax):
    """Returns the title of the legend and the texts of its entries."""
    legend = ax.get_legend()
    entries = [text.get_text() for text in legend.get_texts()]
    return legend.get_title().get_text(), entries
