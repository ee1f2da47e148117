# SPDX-License-Identifier: Apache-2.0
import csv
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.callbacks import ConsistencyMonitor
from keras_bayesdrop.diagnostics import consistency
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.errors import SelectionError

X = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
Y = X[:, :1] - X[:, 1:2]
MEASURES = {
    "dropout_variance": "dropout_variance",
    "ensemble_gap": "ensemble_gap",
    "silent": "silent_fraction",
    "sparsity": "sparsity",
}


def make_model(rate=0.5):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(6, activation="sigmoid", name="one"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(5, activation="sigmoid", name="two"),
            keras.layers.Dense(1, name="last"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=True)
    return model


def fit(model, callbacks, epochs=3, **kwargs):
    return model.fit(
        X,
        Y,
        batch_size=16,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
        **kwargs,
    )


def test_logs_and_record_through_compiled_fit():
    model = make_model()
    monitor = ConsistencyMonitor(X[:8], num_samples=10)
    before = consistency(model, X[:8], 10, seed=0)
    history = fit(model, [monitor]).history
    after = consistency(model, X[:8], 10, seed=0)
    names = {f"{p}_{m}" for p in ("one", "two", "last") for m in MEASURES}
    assert set(history) == names | {"loss"}
    record = monitor.record
    assert record.epochs == [0, 1, 2, 3]
    assert list(record.layers) == ["one", "two", "last"]
    for path, layer in record.layers.items():
        for name, attribute in MEASURES.items():
            logged = history[f"{path}_{name}"]
            recorded = getattr(layer, attribute)
            assert logged == recorded[1:]
            for index, measured in ((0, before), (-1, after)):
                np.testing.assert_allclose(
                    recorded[index],
                    getattr(measured[path], attribute),
                    rtol=1e-5,
                )
        for name in ("mean", "variance", "deterministic", "nwgm"):
            looks = getattr(layer, name)
            wanted = [getattr(each[path], name) for each in (before, after)]
            if wanted[0] is None:
                assert (path, name) == ("last", "nwgm")
                assert looks == []
                continue
            assert len(looks) == 4
            for index, array in zip((0, -1), wanted, strict=True):
                np.testing.assert_allclose(
                    looks[index], array.ravel(), rtol=1e-5, atol=1e-7
                )
    # It saw the training: weights were read anew.
    values = history["two_dropout_variance"]
    assert len(set(values)) == 3
    assert not any(history["one_dropout_variance"])
    assert repr(record) == (
        "ConsistencyRecord(epochs=[0, 1, 2, 3], layers=['one', 'two', 'last'])"
    )
    assert repr(record.layers["two"]) == "LayerRecord(path='two', looks=4)"


def test_training_is_the_same_with_it():
    watched, alone = make_model(), make_model()
    keras.utils.set_random_seed(5)
    fit(alone, [])
    keras.utils.set_random_seed(5)
    fit(watched, [ConsistencyMonitor(X)])
    for one, other in zip(
        alone.get_weights(), watched.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_every_other_epoch_and_later_epochs():
    monitor = ConsistencyMonitor(X, every=2, num_samples=3)
    model = make_model()
    history = fit(model, [monitor], epochs=5).history
    assert monitor.record.epochs == [0, 1, 3, 5]
    logged = history["two_ensemble_gap"]
    assert logged[0] == logged[1] != logged[2] == logged[3] != logged[4]
    # A second training has a record of its own.
    fit(model, [monitor], epochs=8, initial_epoch=6)
    assert monitor.record.epochs == [6, 7]
    assert len(monitor.record.layers["two"].mean) == 2


def test_rows_are_few_and_evenly_spaced():
    monitor = ConsistencyMonitor(np.arange(300.0).reshape(100, 3), max_rows=4)
    np.testing.assert_array_equal(monitor.x[:, 0], [0.0, 99.0, 198.0, 297.0])
    monitor = ConsistencyMonitor({"a": X, "b": tf.constant(X[:, :1])})
    assert {k: v.shape for k, v in monitor.x.items()} == {
        "a": (10, 3),
        "b": (10, 1),
    }
    few = X[:2].copy()
    monitor = ConsistencyMonitor(few)
    few[:] = 0.0
    np.testing.assert_array_equal(monitor.x, X[:2])


def test_of_wide_layers_some_activations_are_kept():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(700, name="wide"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    monitor = ConsistencyMonitor(X, num_samples=3, layers=["wide"])
    fit(model, [monitor], epochs=1)
    layer = monitor.record.layers["wide"]
    measured = consistency(model, monitor.x, 3, seed=0)["wide"]
    assert measured.mean.size == 7000
    assert len(layer.mean[-1]) == len(set(layer.followed)) == 2048
    assert (layer.followed[0], layer.followed[-1]) == (0, 6999)
    np.testing.assert_allclose(
        layer.mean[-1], measured.mean.ravel()[layer.followed], rtol=1e-5
    )


def test_loggers_behind_it(tmp_path):
    path = tmp_path / "log.csv"
    monitor = ConsistencyMonitor(
        X, num_samples=3, layers="two", log_dir=tmp_path / "events"
    )
    fit(make_model(), [monitor, keras.callbacks.CSVLogger(path)], epochs=2)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    recorded = monitor.record.layers["two"].sparsity
    assert [float(row["two_sparsity"]) for row in rows] == recorded[1:]
    tags = set()
    for file in pathlib.Path(tmp_path / "events").rglob("*tfevents*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            tags |= {value.tag for value in event.summary.value}
    assert {f"two_{name}" for name in MEASURES} <= tags


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"every": 0}, BayesdropError, "argument `every`"),
        ({"num_samples": 1}, BayesdropError, "argument `num_samples`"),
        ({"max_rows": 0}, BayesdropError, "argument `max_rows`"),
        ({"threshold": -1.0}, BayesdropError, "argument `threshold`"),
        ({"seed": 0.5}, BayesdropError, "argument `seed`"),
        ({"x": X[:0]}, BayesdropError, "`x` is empty"),
        ({"x": X * np.nan}, NonFiniteError, "the inputs `x`"),
        (
            {"x": tf.data.Dataset.from_tensors(X)},
            BayesdropError,
            "readable in every epoch. Expected an array",
        ),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        ConsistencyMonitor(**{"x": X, **arguments})


def test_wrong_models_stop_before_training():
    model = make_model(rate=0.0)
    before = model.get_weights()
    for monitor, error in (
        (ConsistencyMonitor(X), NothingToSampleError),
        (ConsistencyMonitor(X, layers="none"), BayesdropError),
    ):
        with pytest.raises(error):
            fit(model, [monitor])
    with pytest.raises(SelectionError, match="'none'"):
        fit(make_model(), [ConsistencyMonitor(X, layers="none")])
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
