# SPDX-License-Identifier: Apache-2.0
"""Assumptions about Keras and TensorFlow: a failure is news, not a bug."""

import os

import keras
import numpy as np
from absl.testing import parameterized

from tests.helpers import TestCase

KERAS = tuple(int(part) for part in keras.__version__.split(".")[:2])
X = np.ones((5, 7), "float32")


class DecidesInCall(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, inputs, training=None):
        return keras.random.dropout(inputs, 0.5, seed=self.seed_generator)


class TrainsByDefault(keras.layers.Layer):
    def call(self, inputs, training=True):
        return inputs


def predict(model):
    return model.predict(X, verbose=0)


class TrainingArgumentTest(TestCase):
    def test_predict_and_a_fixed_training_argument(self):
        inputs = keras.Input((7,))
        dropout = keras.layers.Dropout(0.5, seed=1)
        model = keras.Model(inputs, dropout(inputs, training=True))
        if KERAS < (3, 16):
            self.assertAllEqual(predict(model), X)
            self.assertAllEqual(model(X, training=False), X)
        else:
            self.assertNotAllClose(predict(model), predict(model))
            self.assertNotAllClose(model(X, training=False), X)

    def test_layers_that_decide_in_call_stay_stochastic(self):
        model = keras.Sequential([DecidesInCall()])
        self.assertNotAllClose(predict(model), predict(model))
        self.assertNotAllClose(
            model(X, training=False), model(X, training=False)
        )

    def test_training_argument_moves_batch_norm(self):
        norm = keras.layers.BatchNormalization()
        model = keras.Sequential([keras.Input((7,)), norm])
        model(X)
        self.assertAllEqual(norm.moving_mean.numpy(), np.zeros(7))
        model(X, training=True)
        # momentum 0.99: 0.99 * 0 + 0.01 * 1
        self.assertAllClose(norm.moving_mean.numpy(), np.full(7, 0.01))

    def test_default_of_true_reaches_the_layers_inside(self):
        norm = keras.layers.BatchNormalization()

        class Block(TrainsByDefault):
            def __init__(self):
                super().__init__()
                self.norm = norm

            def call(self, inputs, training=True):
                return self.norm(inputs)

        Block()(X)
        self.assertNotAllClose(norm.moving_mean.numpy(), np.zeros(7))

    def test_default_of_true_and_the_layers_beside(self):
        norm = keras.layers.BatchNormalization()
        model = keras.Sequential([keras.Input((7,)), TrainsByDefault(), norm])
        model(X)
        moved = bool(np.any(norm.moving_mean.numpy() != 0))
        self.assertEqual(moved, KERAS < (3, 16))


class SeedTest(TestCase):
    def test_seed_states_are_not_saved(self):
        model = keras.Sequential(
            [keras.Input((7,)), keras.layers.Dropout(0.5, seed=7)]
        )
        fresh = model.layers[-1].seed_generator.state.numpy()
        model(X, training=True)
        used = model.layers[-1].seed_generator.state.numpy()
        self.assertFalse(np.array_equal(used, fresh))
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertAllEqual(
            loaded.layers[-1].seed_generator.state.numpy(), fresh
        )

    def test_seed_states_are_variables_and_not_weights(self):
        layer = keras.layers.Dropout(0.5, seed=7)
        self.assertEqual(layer.weights, [])
        self.assertLen(layer.variables, 1)

    def test_an_int_seed_gives_one_mask_for_ever(self):
        first, second = (keras.random.dropout(X, 0.5, seed=3) for _ in "ab")
        self.assertAllEqual(first, second)


class PrecisionTest(TestCase):
    @parameterized.parameters(("float16", 11 / 1024), ("bfloat16", 2 / 128))
    def test_dropout_in_low_precision_drops_too_much(self, dtype, actual):
        # Uniform numbers on a grid of 2^-10 or 2^-7: those below 0.01.
        layer = keras.layers.Dropout(0.01, seed=1, dtype=dtype)
        y = layer(np.ones((1001, 503), "float32"), training=True)
        y = keras.ops.convert_to_numpy(keras.ops.cast(y, "float32"))
        # n = 503_503: 4 standard errors are at most
        # 4 * sqrt(0.0157 / 503_503) = 0.00071.
        self.assertAllClose(np.mean(y == 0), actual, atol=0.00071, rtol=0)

    def test_spatial_dropout_forgets_its_policy(self):
        layer = keras.layers.SpatialDropout1D(0.5, dtype="mixed_float16")
        self.assertEqual(layer.get_config()["dtype"], "float32")
