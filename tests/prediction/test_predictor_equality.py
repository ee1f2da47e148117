# SPDX-License-Identifier: Apache-2.0
"""A predictor returns the bits of `predict_with_uncertainty`, on every way.

The first call of a shape takes the long way, the second the short one.
"""

import contextlib
import warnings

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests import zoo
from tests.golden_predictions.cases import CASES
from tests.golden_predictions.cases import SAMPLES
from tests.golden_predictions.cases import SEED
from tests.golden_predictions.models import MODELS
from tests.helpers import flat
from tests.prediction.predictors import Ways
from tests.prediction.predictors import assert_equal
from tests.prediction.predictors import whole_call

# Rows of these depend on others, or nothing could be found out about it.
LONG_WAY = set()


def first_rows(x, count):
    return keras.tree.map_structure(lambda leaf: leaf[:count], x)


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kbd.BayesdropWarning)
        yield


def check(monkeypatch, model, x, options, ways_of=None):
    """Compares a predictor with the whole call, for all rows and for one."""
    ways = Ways(monkeypatch)
    with quiet():
        predictor = kbd.Predictor(model, **options)
        for rows in (x, first_rows(x, 1)):
            ways.short = ways.long = 0
            first, second = predictor(rows), predictor(rows)
            taken = (ways.long, ways.short)
            third = predictor(rows, seed=5, first_row=3)
            expected = whole_call(model, rows, **options)
            changed = {**options, "seed": 5, "first_row": 3}
            assert_equal(third, whole_call(model, rows, **changed))
            # What a call returned stays as it is.
            assert_equal(first, expected)
            assert_equal(second, expected)
            if ways_of is not None:
                assert taken == ways_of
    return predictor


@pytest.mark.parametrize("name", CASES)
def test_golden_models(name, monkeypatch):
    case = CASES[name]
    model, x = MODELS[case.model]()
    options = {"num_samples": SAMPLES, "seed": SEED, **case.options}
    if options.pop("batch_size", None):
        options["batch_size"] = 8  # All rows are one batch.
    # Two rows of tokens that are turned round may be the same rows.
    ways = None if case.model == "attention" else (1, 1)
    check(monkeypatch, model, x, flat(**options), ways)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.ZOO)
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_zoo(name, masks, monkeypatch):
    model, x = zoo.ZOO[name].build()
    method = kbd.Sampling(masks=masks)
    options = {"num_samples": 18, "seed": 2, "method": method}
    check(monkeypatch, model, x, options)


def dense(seed, units=2, rate=0.4, activation=None):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(units, activation=activation),
        ]
    )


X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
ENSEMBLE_OPTIONS = {
    "plain": {},
    "independent": {"method": kbd.Sampling(masks="independent")},
    "samples": {"return_samples": True},
    "quantiles": {"quantiles": [0.1, 0.5]},
    "samples and quantiles": {"return_samples": True, "quantiles": [0.5]},
    "moments": {"method": "moments"},
    "rao_blackwell": {"method": "rao_blackwell"},
    "classes": {"head": "classification"},
}


@pytest.mark.parametrize("options", ENSEMBLE_OPTIONS.values(), ids=str)
def test_ensembles(options, monkeypatch):
    # The last network has no noise.
    models = [
        dense(n, rate=0.4 * (n < 2), activation="softmax") for n in (0, 1, 2)
    ]
    check(monkeypatch, models, X, {"seed": 3, **options}, (1, 1))


@pytest.mark.parametrize("number", [2, 16, 17, 50, 1100])
@pytest.mark.parametrize(
    "kept", [{}, {"return_samples": True}, {"quantiles": [0.2, 0.9]}], ids=str
)
def test_numbers_of_samples(number, kept, monkeypatch):
    options = {"num_samples": number, "seed": 1, **kept}
    check(monkeypatch, dense(0), X, options, (1, 1))


def test_several_steps_of_rows_and_samples(monkeypatch):
    # Memory for one row: a step takes some of the samples of a row.
    model = dense(0)
    options = {"num_samples": 40, "seed": 1, "batch_size": 1}
    ways = Ways(monkeypatch)
    predictor = kbd.Predictor(model, **options)
    for rows, taken in ((X, (2, 0)), (X[:1], (1, 1))):
        ways.short = ways.long = 0
        first, second = predictor(rows), predictor(rows)
        assert (ways.long, ways.short) == taken
        assert_equal(first, whole_call(model, rows, **options))
        assert_equal(second, whole_call(model, rows, **options))


def test_several_passes_over_the_samples(monkeypatch):
    # Room for the quantiles of 2 of 6 outputs.
    path = "keras_bayesdrop.prediction.sampling.readout.SKETCH_BYTES"
    monkeypatch.setattr(path, 2 * 20 * 4)
    options = {"num_samples": 20, "seed": 1, "quantiles": [0.2, 0.9]}
    check(monkeypatch, dense(0, units=6), X, options, (1, 1))


def test_rows_that_mix(monkeypatch):
    class Mixes(keras.layers.Layer):
        def call(self, x):
            return x + keras.ops.mean(x, axis=0, keepdims=True)

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dropout(0.5), Mixes()]
    )
    check(monkeypatch, model, X, {"num_samples": 6, "seed": 1})
