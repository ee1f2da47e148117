# SPDX-License-Identifier: Apache-2.0
import csv

import keras
import numpy as np
import pytest

from keras_bayesdrop.callbacks import RelevanceLogger
from keras_bayesdrop.callbacks import VariationalEM
from keras_bayesdrop.diagnostics import relevance
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.regularizers import ADD
from tests.callbacks.test_dropout_rate_logger import read_events

X = np.random.default_rng(0).normal(size=(8, 20)).astype("float32")
Y = X[:, :1]
QUANTILES = ("q05", "q50", "q95")


def make_model():
    inner = keras.Sequential(
        [
            keras.Input((20,)),
            BayesianDense(
                4, 8, structure="ard_add", scales="variable", name="nested"
            ),
        ],
        name="inner",
    )
    inputs = keras.Input((20,))
    x = keras.layers.Dense(
        4, kernel_regularizer=ADD("half_cauchy", 8), name="map"
    )(inner(inputs))
    x = BayesianDense(1, 8, structure=None, name="plain")(x)
    model = keras.Model(inputs, x)
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    return model


def fit(callbacks, epochs=2):
    model = make_model()
    history = model.fit(
        X,
        Y,
        batch_size=8,
        epochs=epochs,
        verbose=0,
        callbacks=[VariationalEM(), *callbacks],
    )
    return model, history.history


def test_logs_have_what_was_learned(tmp_path):
    path = tmp_path / "log.csv"
    table = keras.callbacks.CSVLogger(path)
    model, history = fit([RelevanceLogger(), table])
    assert set(history) == {
        "loss",
        *(f"inner/nested_row_scale_{name}" for name in QUANTILES),
        "inner/nested_matrix_scale",
        "map_matrix_scale",
    }
    measured = relevance(model)
    # The smallest values that 5%, 50% and 95% of 20 do not exceed.
    rows = np.sort(measured["inner/nested"].rows)
    for name, place in zip(QUANTILES, (0, 9, 18), strict=True):
        assert history[f"inner/nested_row_scale_{name}"][-1] == rows[place]
    scales = history["inner/nested_matrix_scale"]
    assert scales[-1] == measured["inner/nested"].matrix
    assert scales[0] != scales[1]
    assert history["map_matrix_scale"][-1] == measured["map"].matrix
    with open(path) as file:
        rows = list(csv.DictReader(file))
    for name, values in history.items():
        assert [float(row[name]) for row in rows] == values


def test_own_event_file(tmp_path):
    _, history = fit([RelevanceLogger(every=2, log_dir=tmp_path)], epochs=4)
    del history["loss"]
    events = read_events(tmp_path)
    for name, values in history.items():
        first, second, third, fourth = values
        assert first == second != third == fourth
        for epoch in (0, 2):
            plugin, value = events.pop((name, epoch))
            assert plugin == "scalars"
            assert value == np.float32(values[epoch])
    for epoch in (0, 2):
        plugin, bins = events.pop(("inner/nested_row_scale", epoch))
        assert plugin == "histograms"
        assert bins[:, 2].sum() == 20
    assert not events


def test_nothing_to_log():
    model = keras.Sequential(
        [
            keras.Input((20,)),
            BayesianDense(1, 8, structure=None),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse", jit_compile=False)
    with pytest.raises(
        BayesdropError, match=r"nothing to log.*Expected.*Received"
    ):
        model.fit(X, Y, verbose=0, callbacks=[RelevanceLogger()])


def test_a_model_that_the_first_batch_builds():
    model = keras.Sequential(
        [BayesianDense(1, 8, structure="add", name="dense")]
    )
    model.compile("sgd", "mse", jit_compile=False)
    history = model.fit(X, Y, verbose=0, callbacks=[RelevanceLogger()]).history
    assert history["dense_matrix_scale"] == [relevance(model)["dense"].matrix]


def test_bad_argument():
    with pytest.raises(
        BayesdropError, match=r"`every`. Expected .* Received: every=0"
    ):
        RelevanceLogger(every=0)
