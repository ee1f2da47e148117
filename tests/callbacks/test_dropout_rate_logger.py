# SPDX-License-Identifier: Apache-2.0
import csv
import importlib.util
import math
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.callbacks import DropoutRateLogger
from keras_bayesdrop.callbacks import _summaries
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import ConcreteDropout

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
Y = X[:, :1]


class Learned(keras.layers.Layer):
    """Has a log alpha per weight, as layers of variational dropout do."""

    def build(self, shape):
        self.values = self.add_weight(
            name="values", shape=(4, 25), initializer="zeros"
        )

    def call(self, x):
        return x

    def log_alpha(self):
        return self.values.value


def make_model():
    inner = keras.Sequential(
        [
            keras.Input((3,)),
            ConcreteDropout(keras.layers.Dense(4), 8, name="nested"),
        ],
        name="inner",
    )
    inputs = keras.Input((3,))
    x = keras.layers.Dropout(0.5, name="fixed")(inner(inputs))
    x = Learned(name="sparse")(x)
    x = ConcreteDropout(keras.layers.Dense(1), 8, name="last")(x)
    model = keras.Model(inputs, x)
    # 0 to 99 in an order of no meaning: five are below 5, 96 above 3.
    values = np.random.default_rng(0).permutation(100).reshape(4, 25)
    model.get_layer("sparse").values.assign(values)
    model.get_layer("sparse").trainable = False
    model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=False)
    return model


def fit(callbacks, epochs=2):
    model = make_model()
    history = model.fit(
        X, Y, batch_size=8, epochs=epochs, verbose=0, callbacks=callbacks
    )
    return model, history.history


def read_events(folder):
    """Returns `{(tag, step): (plugin, value)}` of the event files."""
    summaries = {}
    for path in pathlib.Path(folder).rglob("events.out.tfevents.*"):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                if plugin in ("scalars", "histograms"):
                    array = tf.make_ndarray(value.tensor)
                    summaries[value.tag, event.step] = plugin, array
    return summaries


def test_history_has_what_was_learned():
    logger = DropoutRateLogger()
    model, history = fit([logger])
    assert set(history) == {
        "loss",
        "inner/nested_rate",
        "last_rate",
        "sparse_log_alpha_q05",
        "sparse_log_alpha_q50",
        "sparse_log_alpha_q95",
        "sparse_sparsity",
    }
    nested = model.get_layer("inner").get_layer("nested")
    assert history["inner/nested_rate"][-1] == nested.rate
    assert history["last_rate"][-1] == model.get_layer("last").rate
    assert history["last_rate"][0] != history["last_rate"][1]
    # The smallest values that 5%, 50% and 95% of 0 .. 99 do not exceed.
    for name, value in (("q05", 4), ("q50", 49), ("q95", 94)):
        assert history[f"sparse_log_alpha_{name}"] == [value] * 2
    assert history["sparse_sparsity"] == [0.96] * 2


def test_threshold_and_infinities():
    logger = DropoutRateLogger(threshold=49.5)
    logger.set_model(make_model())
    assert logger.measure()["sparse_sparsity"] == 0.5
    values = np.full((4, 25), math.inf)
    values[0, :10] = 1.0
    logger.model.get_layer("sparse").values.assign(values)
    logs = logger.measure()
    assert logs["sparse_sparsity"] == 0.9
    assert logs["sparse_log_alpha_q05"] == 1.0
    assert logs["sparse_log_alpha_q50"] == math.inf


def test_csv(tmp_path):
    path = tmp_path / "log.csv"
    _, history = fit([DropoutRateLogger(), keras.callbacks.CSVLogger(path)])
    with open(path) as file:
        rows = list(csv.DictReader(file))
    assert [float(row["last_rate"]) for row in rows] == history["last_rate"]
    assert set(rows[0]) >= {"epoch", *history}


def test_tensorboard_of_keras(tmp_path, monkeypatch):
    board = keras.callbacks.TensorBoard(tmp_path)
    if importlib.util.find_spec("tensorboard") is None:
        # What TensorFlow takes from TensorBoard, by its own description.
        def scalar(name, data, step=None, description=None):
            metadata = tf.compat.v1.SummaryMetadata()
            metadata.plugin_data.plugin_name = "scalars"
            return tf.summary.write(
                name, tf.cast(data, tf.float32), step, metadata
            )

        monkeypatch.setattr(board.summary, "scalar", scalar)
    _, history = fit([DropoutRateLogger(), board])
    events = read_events(tmp_path)
    for epoch, rate in enumerate(history["last_rate"]):
        plugin, value = events["epoch_last_rate", epoch]
        assert plugin == "scalars"
        assert value == np.float32(rate)


def test_own_event_file(tmp_path):
    _, history = fit([DropoutRateLogger(log_dir=tmp_path)])
    del history["loss"]
    events = read_events(tmp_path)
    for epoch in range(2):
        for name, values in history.items():
            plugin, value = events.pop((name, epoch))
            assert plugin == "scalars"
            assert value == np.float32(values[epoch])
        plugin, bins = events.pop(("sparse_log_alpha", epoch))
        assert plugin == "histograms"
        # [left, right, count] of the bins, from end to end.
        assert bins[0, 0] == 0 and bins[-1, 1] == 99
        np.testing.assert_array_equal(bins[1:, 0], bins[:-1, 1])
        assert bins[:, 2].sum() == 100
    assert not events


def test_histogram_leaves_out_infinities(tmp_path):
    writer = _summaries.open_writer(str(tmp_path))
    _summaries.histogram(writer, "x", np.array([1.0, math.inf, 2.0]), 0)
    writer.close()
    _, bins = read_events(tmp_path)["x", 0]
    assert bins[:, 2].sum() == 2


def test_every(tmp_path):
    logger = DropoutRateLogger(every=2, log_dir=tmp_path)
    _, history = fit([logger], epochs=4)
    first, second, third, fourth = history["last_rate"]
    assert first == second != third == fourth
    steps = {step for tag, step in read_events(tmp_path) if tag == "last_rate"}
    assert steps == {0, 2}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"threshold": "3"}, "threshold"),
        ({"threshold": None}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"threshold": [3.0]}, "threshold"),
        ({"every": 0}, "every"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises(
        BayesdropError,
        match=f"Invalid value for argument `{name}`. Expected .* "
        f"Received: {name}=",
    ):
        DropoutRateLogger(**arguments)
