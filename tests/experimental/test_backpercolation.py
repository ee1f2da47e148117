# SPDX-License-Identifier: Apache-2.0
"""Dropped gradients: their mean is backpropagation."""

import os
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.experimental import Backpercolation
from keras_bayesdrop.experimental import backpercolation
from tests.helpers import TestCase
from tests.theory.masks import all_masks

# Activation, scale. The slope of gelu is negative at places, and above one at
# others; that of the last two is above the scale almost everywhere.
CASES = (
    ("sigmoid", 1.0),
    ("sigmoid", 0.25),
    ("tanh", 1.0),
    ("gelu", 1.0),
    ("gelu", 1.2),
    ("tanh", 0.1),
    ("linear", 0.5),
)


@keras.saving.register_keras_serializable("tests")
def tenth(x):
    return 0.1 * x


def _slopes(activation, x):
    """Derivatives of an activation at numbers."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = keras.activations.get(activation)(x)
    return tape.gradient(y, x).numpy()


def _network(activation, scale):
    """Dense layers with the activation between, 3-2-3-1, and one input."""
    rng = np.random.default_rng(3)
    keras.utils.set_random_seed(0)
    kernels = [2 * rng.normal(size=s) for s in ((3, 2), (2, 3), (3, 1))]
    activations = [
        Backpercolation(activation, scale=scale, dtype="float64")
        for _ in range(2)
    ]
    return [tf.Variable(k) for k in kernels], activations, rng.normal(size=3)


def _forward(x, kernels, activations, training):
    first = x @ kernels[0]
    second = activations[0](first, training=training) @ kernels[1]
    outputs = activations[1](second, training=training) @ kernels[2]
    return first, second, outputs


class BackpercolationTest(TestCase):
    @parameterized.parameters(*CASES)
    def test_mean_over_all_draws_is_backpropagation(self, activation, scale):
        kernels, activations, x = _network(activation, scale)
        with tf.GradientTape() as tape:
            first, second, outputs = _forward(
                x[None], kernels, activations, False
            )
            loss = tf.reduce_sum(tf.square(outputs - 1.0))
        exact = tape.gradient(loss, kernels)
        sums = np.concatenate([first[0], second[0]])
        chances = np.minimum(np.abs(_slopes(activation, sums)) / scale, 1)
        passes, shares = all_masks(1 - chances)
        u = np.where(passes, 0.0, 1 - 2.0**-53)
        draws = iter((tf.constant(u[:, :2]), tf.constant(u[:, 2:])))
        rows = np.tile(x, (len(u), 1))
        with (
            mock.patch.object(
                backpercolation, "uniform", lambda *_: next(draws)
            ),
            tf.GradientTape() as tape,
        ):
            _, _, outputs = _forward(rows, kernels, activations, True)
            losses = tf.reduce_sum(tf.square(outputs - 1.0), axis=1)
            mean = tf.reduce_sum(losses * shares)
        gradients = tape.gradient(mean, kernels)
        for each, right in zip(gradients, exact, strict=True):
            self.assertAllClose(each, right, rtol=1e-12, atol=1e-12)

    @parameterized.parameters(*CASES)
    def test_draws_under_xla(self, activation, scale):
        rows = 20_000
        x = np.array([-2.0, -0.5, 0.3, 1.5])
        upstream = np.array([1.0, -2.0, 3.0, 0.5])
        layer = Backpercolation(
            activation, scale=scale, seed=5, dtype="float64"
        )

        @tf.function(jit_compile=True)
        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x, training=True)
            return y, tape.gradient(y, x, output_gradients=many)

        many = tf.constant(np.tile(upstream, (rows, 1)))
        y, gradients = gradient(tf.constant(np.tile(x, (rows, 1))))
        function = keras.activations.get(activation)
        self.assertAllClose(y[0], function(tf.constant(x)), rtol=1e-12)
        factors = np.asarray(gradients) / upstream
        slopes = _slopes(activation, x)
        full = np.sign(slopes) * np.maximum(np.abs(slopes), scale)
        values = np.minimum(np.abs(factors), np.abs(factors - full))
        self.assertLess(values.max(), 1e-12)
        # Var = |f'| (scale - |f'|), or none.
        size = np.abs(slopes)
        variance = size * np.maximum(scale - size, 0)
        error = 5 * np.sqrt(variance / rows) + 1e-12
        self.assertTrue(np.all(np.abs(factors.mean(0) - slopes) < error))
        # Of a variable with two values, at most scale apart, the error of the
        # variance is at most 5 * scale^2 / (2 sqrt(rows)).
        gap = np.abs(factors.var(0) - variance)
        self.assertLess(gap.max(), 2.5 * scale**2 / np.sqrt(rows))

    def test_draws_are_independent_and_follow_the_seed(self):
        x = tf.zeros((50, 4))

        def gradients(layer):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x, training=True)
            return tape.gradient(y, x).numpy()

        first, second = (Backpercolation(seed=2) for _ in range(2))
        draws = [gradients(first) for _ in range(2)]
        self.assertAllEqual(draws, [gradients(second) for _ in range(2)])
        self.assertNotAllClose(draws[0], draws[1])
        self.assertGreater(len(np.unique(draws[0], axis=0)), 4)
        self.assertGreater(len(np.unique(draws[0].T, axis=0)), 3)

    def test_a_gradient_that_passes_is_not_attenuated(self):
        x = tf.zeros((2000, 4))
        layers = [Backpercolation(tenth, seed=s) for s in range(2)]
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layers[1](layers[0](x, training=True), training=True)
        gradients = tape.gradient(y, x).numpy()
        self.assertAllEqual(np.unique(gradients), [0.0, 1.0])
        # Of 8000 draws 80 are expected, with a deviation of 9.
        self.assertBetween(np.sum(gradients), 35, 125)

    def test_gradient_elsewhere_is_the_usual_one(self):
        x = tf.constant([[-1.0, 0.0, 2.0]])
        for training in (None, False):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = Backpercolation("tanh")(x, training=training)
            self.assertAllClose(
                tape.gradient(y, x), 1 - np.tanh(x) ** 2, rtol=1e-5
            )

    def test_logits_do_not_lead_around_it(self):
        # Keras finds the input of a sigmoid by an attribute of its output,
        # and would take the gradient of the loss from there.
        x = tf.zeros((40, 1))
        layer = Backpercolation("sigmoid", seed=0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = keras.losses.binary_crossentropy(tf.ones_like(x), y)
        gradients = tape.gradient(loss, x).numpy()
        # d loss / dy = -1 / y = -2, which passes with probability 1/4.
        self.assertAllClose(np.unique(gradients), [-2.0, 0.0], rtol=1e-4)

    def test_function_of_the_user_is_saved(self):
        model = keras.Sequential([keras.Input((3,)), Backpercolation(tenth)])
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        x = np.ones((2, 3), "float32")
        self.assertAllClose(loaded(x), 0.1 * x)
