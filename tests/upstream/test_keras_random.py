# SPDX-License-Identifier: Apache-2.0
"""Assumptions of the package about random numbers in Keras and TensorFlow.

A failure here is news about Keras, not a bug of the package.
"""

import keras
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.observer import FUNCTIONS
from keras_bayesdrop._core.observer import observing
from tests.helpers import TestCase

layers = keras.layers


def philox(key, counter, rounds=10):
    """Philox4x32 in plain Python: 64-bit key, 128-bit counter, four words."""
    word = 2**32 - 1
    c = [(counter >> (32 * i)) & word for i in range(4)]
    k = [key & word, key >> 32]
    for _ in range(rounds):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (second >> 32) ^ c[1] ^ k[0],
            second & word,
            (first >> 32) ^ c[3] ^ k[1],
            first & word,
        ]
        k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
    return c


class PhiloxTest(TestCase):
    def words(self, key, low, high, count, jit_compile=False):
        @tf.function(jit_compile=jit_compile)
        def make(key, counter):
            return tf.raw_ops.StatelessRandomUniformFullIntV2(
                shape=[count], key=key, counter=counter, alg=1, dtype=tf.uint32
            )

        return make(
            tf.constant([key], tf.uint64), tf.constant([low, high], tf.uint64)
        )

    def test_known_answer(self):
        known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
        self.assertEqual(philox(0, 0), known)
        self.assertAllEqual(self.words(0, 0, 0, 4), known)

    @parameterized.parameters(False, True)
    def test_key_and_counter(self, jit_compile):
        key, low, high = 0x123456789ABCDEF0, 0xFEDCBA9876543210, 5 * 2**32 + 3
        want = [
            word
            for block in range(300)
            for word in philox(key, (high << 64) + low + block)
        ]
        got = self.words(key, low, high, 1200, jit_compile)
        self.assertAllEqual(got, want)

    def test_shape_is_row_major(self):
        flat = self.words(7, 0, 0, 24)
        block = tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[2, 3, 4],
            key=tf.constant([7], tf.uint64),
            counter=tf.constant([0, 0], tf.uint64),
            alg=1,
            dtype=tf.uint32,
        )
        self.assertAllEqual(tf.reshape(block, [-1]), flat)


class RandomTest(TestCase):
    """Assumptions of `_core/observer.py`, `graph/sites` and `graph/observe`."""

    def test_random_functions_are_looked_up_at_every_call(self):
        backend = private_keras.random_backend()
        for name in FUNCTIONS:
            self.assertTrue(callable(getattr(backend, name)), name)
            self.assertTrue(callable(getattr(keras.random, name)), name)
        drawn = []

        class Sees:
            def draw(self, function, arguments):
                drawn.append((function, sorted(arguments)))
                return tf.zeros([3])

            def loop(self, run, arguments):
                raise AssertionError

        x = tf.ones([3])
        with observing(Sees()):
            keras.random.dropout(x, 0.5)
            keras.random.uniform((3,))
            layers.Dropout(0.5)(x, training=True)
            layers.GaussianNoise(0.5)(x, training=True)
        self.assertEqual(
            [name for name, _ in drawn],
            ["dropout", "uniform", "dropout", "normal"],
        )
        self.assertContainsSubset(
            ["inputs", "noise_shape", "rate"], drawn[0][1]
        )
        self.assertContainsSubset(
            ["dtype", "maxval", "minval", "shape"], drawn[1][1]
        )

    def test_no_function_that_draws_is_missing(self):
        known = {*FUNCTIONS, "SeedGenerator"}
        public = {name for name in dir(keras.random) if name[0] != "_"}
        self.assertEqual(public - known, set())

    def test_loops_over_time_are_looked_up_at_every_call(self):
        seen = []

        class Sees:
            def draw(self, function, arguments):
                raise AssertionError

            def loop(self, run, arguments):
                seen.append(sorted(arguments))
                return run(**arguments)

        layer = layers.SimpleRNN(2, unroll=True)
        layer.build((1, 3, 2))
        with observing(Sees()):
            layer(tf.ones([1, 3, 2]))
        self.assertContainsSubset(
            ["input_length", "inputs", "step_function", "time_major", "unroll"],
            seen[0],
        )

    def test_children_inherit_the_mode_of_the_context(self):
        modes = []

        class Child(layers.Layer):
            def call(self, x, training=None):
                modes.append(training)
                return x

        class Parent(layers.Layer):
            def __init__(self):
                super().__init__()
                self.child = Child()

            def call(self, x, training=None):
                self.child(x)
                with private_keras.training_mode(self, True):
                    self.child(x)
                return self.child(x)

        Parent()(tf.ones([1, 2]), training=False)
        # The build of the parent calls it first.
        self.assertEqual(modes[-3:], [False, True, False])

    def test_seed_generators_are_found(self):
        (state,) = private_keras.seed_variables(layers.Dropout(0.5))
        self.assertEqual(tuple(state.shape), (2,))
        self.assertEqual(private_keras.seed_variables(layers.Dense(2)), [])
        self.assertLen(private_keras.seed_variables(layers.RandomFlip()), 1)

    def test_recurrent_layers_make_masks_before_they_loop(self):
        layer = layers.RNN(layers.SimpleRNNCell(2))
        self.assertTrue(callable(layer._maybe_config_dropout_masks))

    def test_state_that_training_moves_is_not_trainable(self):
        norm = layers.BatchNormalization()
        norm.build((None, 3))
        self.assertLen(norm._non_trainable_variables, 2)
