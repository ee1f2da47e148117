# SPDX-License-Identifier: Apache-2.0
"""Runs of `keras-bayesdrop predict`, and what Python predicts."""

import csv

import keras
import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop_command import main
from tests.cli import files
from tests.helpers import flat


def run(*arguments, data="data.npy", model="model.keras"):
    return main(["predict", model, data, *arguments])


def expected(model="model.keras", x=None, samples=20, **kwargs):
    """Returns the prediction of Python, with the seed of the tests."""
    return kbd.predict_with_uncertainty(
        keras.saving.load_model(model),
        files.data() if x is None else x,
        samples,
        seed=5,
        verbose=0,
        **flat(**kwargs),
    )


def assert_same(actual, desired):
    """Asserts that two predictions are equal bit for bit."""
    assert actual.task == desired.task
    assert actual.stats.seed == desired.stats.seed
    assert actual.stats.num_samples == desired.stats.num_samples
    assert actual.stats.masks == desired.stats.masks
    assert actual.stats.draws == desired.stats.draws
    assert actual.stats.method == desired.stats.method
    assert actual.noise_precision == desired.noise_precision
    for name in (
        "mean",
        "variance",
        "samples",
        "quantile_levels",
        "quantile_values",
        "mean_entropy",
        "vote_counts",
        "sampled_variance",
    ):
        np.testing.assert_array_equal(
            getattr(actual, name), getattr(desired, name), name
        )


def read_table(path):
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, "float64")


def column(path, name):
    header, rows = read_table(path)
    return rows[:, header.index(name)].astype("float32")


FIXED = ("--samples", "20", "--seed", "5", "--quiet")
