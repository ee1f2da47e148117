# SPDX-License-Identifier: Apache-2.0
"""Predictions that tests of this room share."""

import dataclasses

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import Stats

SHAPES = [(7,), (7, 1), (7, 3), (2, 4, 5), (1,), (1, 1)]
CLASS_SHAPES = [(7, 3), (1, 2), (2, 4, 5)]
ARRAYS = (
    "mean",
    "variance",
    "samples",
    "quantile_values",
    "mean_entropy",
    "vote_counts",
)


def make_stats(num_samples, num_rows, **changes):
    stats = Stats(
        num_samples=num_samples,
        num_rows=num_rows,
        seed=2**63 + 5,
        masks="shared",
        method="sampling",
        engine=(
            EngineStep(name="prefix", engine="keras", reason="no noise"),
            EngineStep(name="rest", engine="reference", reason="asked for"),
        ),
        seconds=0.1 + 0.2,
        samples_per_second=1 / 3,
        batch_size=32,
    )
    return dataclasses.replace(stats, **changes)


def make(task, samples, keep=True, noise_precision=None, **fields):
    """A prediction from `samples`, as an engine would accumulate it."""
    samples = np.asarray(samples)
    wide = samples.astype("float64")
    if noise_precision is not None:
        assert task == "regression"
        task = Regression(noise_precision=noise_precision)
    return Predictive(
        head=task,
        mean=wide.mean(axis=0).astype(samples.dtype),
        variance=wide.var(axis=0, ddof=1).astype(samples.dtype),
        samples=samples if keep else None,
        stats=make_stats(len(samples), samples.shape[1]),
        **fields,
    )


def normal(shape, num_samples=20, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return rng.normal(3.0, 2.0, (num_samples, *shape)).astype(dtype)


def simplex(shape, num_samples=20, seed=0, dtype="float32"):
    logits = 2 * np.random.default_rng(seed).standard_normal(
        (num_samples, *shape)
    )
    return scipy.special.softmax(logits, axis=-1).astype(dtype)


def unit(shape, num_samples=20, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(num_samples, *shape)).astype(dtype)


def bernoulli_entropy(p):
    return scipy.special.entr(p) + scipy.special.entr(1 - p)


def everything(task):
    maker = {"regression": normal, "classification": simplex, "binary": unit}
    samples = maker[task]((5, 3))
    levels = (0.1, 1 / 3, 0.9)
    labels = (5,) if task == "classification" else (5, 3)
    fields = (
        {"noise_precision": 1 / 3}
        if task == "regression"
        else {
            "mean_entropy": np.full(labels, 0.25, "float32"),
            "vote_counts": np.arange(15).reshape(5, 3),
        }
    )
    return make(
        task,
        samples,
        quantile_levels=levels,
        quantile_values=np.quantile(samples, levels, axis=0),
        **fields,
    )


def assert_same(a, b):
    for field in dataclasses.fields(Predictive):
        first, second = getattr(a, field.name), getattr(b, field.name)
        if isinstance(first, np.ndarray):
            assert first.dtype == second.dtype
            np.testing.assert_array_equal(first, second)
        else:
            assert first == second
            assert type(first) is type(second)
