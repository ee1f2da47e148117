# SPDX-License-Identifier: Apache-2.0
"""Trains on one and on two replicas and prints what was logged.

A program of its own: logical devices are made before TensorFlow starts.
"""

import json

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.training import MonteCarloModel

SAMPLES = 3


class RowNoise(keras.layers.Layer):
    """Noise that depends on the sample alone, so that replicas agree."""

    def call(self, inputs, training=None):
        if not training:
            return inputs
        rows = keras.ops.arange(keras.ops.shape(inputs)[0])
        scale = 1.0 + keras.ops.cast(rows % SAMPLES, inputs.dtype)
        return inputs * scale[:, None]


def run(strategy):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 3)).astype("float32")
    y = rng.normal(size=(16, 1)).astype("float32")
    weight = rng.uniform(size=16)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = keras.Input((3,))
        hidden = keras.layers.Dense(4, kernel_regularizer="l2")(inputs)
        outputs = keras.layers.Dense(1)(RowNoise()(hidden))
        model = MonteCarloModel(inputs, outputs)
        model.compile(
            keras.optimizers.SGD(0.05),
            GaussianNLL(2.0),
            metrics=["mae"],
            mc_samples=SAMPLES,
            mc_objective="importance_weighted",
        )
    # One step an epoch: Keras 3.8 itself logs several differently.
    history = model.fit(
        x, y, 16, 3, sample_weight=weight, shuffle=False, verbose=0
    ).history
    logged = [value for name in sorted(history) for value in history[name]]
    logged += model.evaluate(x, y, verbose=0)
    logged += np.concatenate([w.ravel() for w in model.get_weights()]).tolist()
    return [float(value) for value in logged]


def evaluate_noise(strategy):
    """Replicas with noise of their own at least run."""
    with strategy.scope():
        inputs = keras.Input((3,))
        x = keras.layers.Dropout(0.5)(inputs)
        model = MonteCarloModel(inputs, keras.layers.Dense(1)(x))
        model.compile("sgd", GaussianNLL(1.0), mc_samples=2)
    ones = np.ones((8, 3))
    assert np.isfinite(model.evaluate(ones, ones[:, :1], verbose=0)).all()


cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
evaluate_noise(two)
print(json.dumps([run(tf.distribute.get_strategy()), run(two)]))  # noqa: T201
