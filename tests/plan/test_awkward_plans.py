# SPDX-License-Identifier: Apache-2.0
"""Plans of models whose batch axis moves, or that keep a state."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop import BayesdropError
from tests import zoo
from tests.helpers import TestCase
from tests.helpers import flat

layers = keras.layers
ops = keras.ops


class Weights(layers.Layer):
    """Drops weights, not activations (DropConnect)."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 2))

    def call(self, x):
        return ops.matmul(x, self.drop(ops.convert_to_tensor(self.kernel)))


class PositionNoise(layers.Layer):
    """Drops a position embedding before it is added."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)

    def build(self, shape):
        self.table = self.add_weight(shape=(1, *shape[1:]))

    def call(self, x):
        return x + self.drop(ops.convert_to_tensor(self.table))


class TimeMajor(layers.Layer):
    """Drops [time, batch, features]."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)

    def call(self, x):
        turned = self.drop(ops.transpose(x, (1, 0, 2)))
        return ops.transpose(turned, (1, 0, 2))


class Range(layers.Layer):
    """Returns the positions of a sequence of any length, [time]."""

    def call(self, x):
        return tf.range(tf.shape(x)[1])

    def compute_output_spec(self, x):
        return keras.KerasTensor((x.shape[1],), "int32")


def time_major_graph():
    inputs = keras.Input((3, 4))
    x = layers.Dropout(0.5)(ops.transpose(inputs, (1, 0, 2)))
    return keras.Model(inputs, ops.transpose(x, (1, 0, 2))), zoo.numbers(3, 4)


def time_major_skip():
    inputs = keras.Input((3, 4))
    x = layers.Dropout(0.5)(inputs)
    x = ops.transpose(inputs, (1, 0, 2)) + ops.transpose(x, (1, 0, 2))
    return keras.Model(inputs, ops.transpose(x, (1, 0, 2))), zoo.numbers(3, 4)


def open_positions():
    inputs = keras.Input((None, 4))
    table = layers.Embedding(9, 4)(Range()(inputs))
    return keras.Model(inputs, layers.Dropout(0.5)(inputs) + table), (
        zoo.numbers(3, 4)
    )


def scalar_beside_noise():
    class Scaled(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.drop = layers.Dropout(0.5)

        def call(self, x, scale):
            return self.drop(x) * scale

        def compute_output_spec(self, x, scale):
            return keras.KerasTensor(x.shape, x.dtype)

    inputs = keras.Input((4,))
    scale = layers.Lambda(
        lambda x: ops.convert_to_tensor(3.0), output_shape=lambda shape: ()
    )(inputs)
    return keras.Model(inputs, Scaled()(inputs, scale)), zoo.numbers(4)


def stateful():
    return keras.Sequential(
        [
            keras.Input((3, 4), batch_size=5),
            layers.LSTM(2, dropout=0.5, stateful=True),
        ]
    ), zoo.numbers(3, 4)


AWKWARD = {
    "weights": lambda: (
        keras.Sequential([keras.Input((32,)), Weights()]),
        zoo.numbers(32, rows=2),
    ),
    "few_weights": lambda: (
        keras.Sequential([keras.Input((3,)), Weights()]),
        zoo.numbers(3),
    ),
    "position_noise": lambda: (
        keras.Sequential([keras.Input((3, 4)), PositionNoise()]),
        zoo.numbers(3, 4),
    ),
    "time_major_inside": lambda: (
        keras.Sequential([keras.Input((3, 4)), TimeMajor()]),
        zoo.numbers(3, 4),
    ),
    "time_major_inside_divisible": lambda: (
        keras.Sequential([keras.Input((32, 4)), TimeMajor()]),
        zoo.numbers(32, 4, rows=2),
    ),
    "time_major": time_major_graph,
    "time_major_skip": time_major_skip,
    "open_positions": open_positions,
    "scalar": scalar_beside_noise,
    "stateful": stateful,
}


class AwkwardTest(TestCase):
    """Batch axes that are not first: right, or refused by name."""

    @parameterized.named_parameters(*AWKWARD.items())
    @pytest.mark.filterwarnings("ignore:Samples of model.*one at a time")
    def test_right_or_refused(self, make):
        model, x = make()
        certain = np.asarray(model(x, training=False))
        for layer in model.layers:
            if getattr(layer, "stateful", False):
                layer.reset_state()
        before = zoo.fingerprint(model)
        settings = {"seed": 0, "return_samples": True, "verbose": 0}
        try:
            p = kbd.predict_with_uncertainty(model, x, 16, **flat(**settings))
            q = kbd.predict_with_uncertainty(
                model, x, 16, batch_size=1, **flat(**settings)
            )
        except BayesdropError as error:
            self.assertRegex(str(error), "(?s)Expected.*Received")
        else:
            self.assertAllClose(p.samples, q.samples, rtol=1e-5, atol=1e-6)
            self.assertGreater(p.variance.max(), 0)
            for number in (0, 9):
                self.assertAllClose(
                    p.samples[number],
                    kbd.sample_function(model, 0, number)(x),
                    rtol=1e-5,
                    atol=1e-6,
                )
        self.assertAllClose(kbd.deterministic(model)(x), certain)
        self.assertEqual(zoo.fingerprint(model), before)
