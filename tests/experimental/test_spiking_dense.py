# SPDX-License-Identifier: Apache-2.0
"""Spikes: mean, variance and covariance against all of them, one by one."""

from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.experimental import SpikingDense
from keras_bayesdrop.experimental import spiking_dense
from keras_bayesdrop.theory import nwgm
from tests.helpers import TestCase
from tests.theory.masks import all_masks
from tests.theory.masks import moments_of

FIRINGS = ("unit", "connection")
X = np.array([0.2, 0.9, 0.5, 0.0])
KERNEL = np.random.default_rng(0).normal(size=(4, 2))
BIAS = np.array([0.3, -0.2])
SIZE = 0.7


def _layer(firing, activation=None, size=SIZE):
    layer = SpikingDense(
        2,
        firing=firing,
        spike_size=size,
        activation=activation,
        dtype="float64",
    )
    layer.build((None, 4))
    layer.set_weights([KERNEL, BIAS])
    return layer


def _fire(layer, x, fires):
    """Calls the layer in training, with chosen units firing."""
    # Below every probability but zero, or above every one but one.
    u = tf.constant(np.where(fires, 1e-300, 1 - 2.0**-53))
    with mock.patch.object(spiking_dense, "uniform", lambda *_: u):
        return layer(x, training=True)


def _all_outputs(layer):
    """Outputs [spikes, 2] for all sets of spikes, and their chances."""
    chances = X
    if layer.firing == "connection":
        chances = np.repeat(X, 2)
    fires, chances = all_masks(1 - chances)
    if layer.firing == "connection":
        fires = fires.reshape(-1, 4, 2)
    return _fire(layer, np.tile(X, (len(fires), 1)), fires), chances


class SpikingDenseTest(TestCase):
    @parameterized.parameters(*FIRINGS)
    def test_moments_of_the_sums_eq_125_to_135(self, firing):
        layer = _layer(firing)
        mean, covariance = moments_of(*_all_outputs(layer))
        expected = SIZE * X @ KERNEL + BIAS
        self.assertAllClose(mean, expected, rtol=0, atol=1e-12)
        self.assertAllClose(layer(X[None])[0], expected, rtol=0, atol=1e-12)
        spread = SIZE**2 * KERNEL.T @ np.diag(X * (1 - X)) @ KERNEL
        if firing == "connection":
            spread = np.diag(np.diag(spread))
        self.assertAllClose(covariance, spread, rtol=0, atol=1e-12)

    @parameterized.product(firing=FIRINGS, activation=("sigmoid", "softmax"))
    def test_output_without_spikes_is_the_nwgm_eq_132(self, firing, activation):
        layer = _layer(firing, activation)
        outputs, chances = _all_outputs(layer)
        geometric = nwgm(outputs, chances, classes=activation == "softmax")
        plain = layer(X[None])[0]
        self.assertAllClose(geometric, plain, rtol=0, atol=1e-12)
        # Near to the mean, and not the same.
        error = np.abs(chances @ np.asarray(outputs) - plain).max()
        self.assertBetween(error, 1e-4, 0.05)

    def test_spikes_of_random_probabilities_eq_136(self):
        outputs, chances = _all_outputs(_layer("unit", "sigmoid"))
        outputs = np.asarray(outputs)
        fires, _ = all_masks(np.full(2, 0.5))
        rows = np.repeat(outputs, len(fires), axis=0)
        fires = np.tile(fires, (len(outputs), 1))
        chances = np.repeat(chances, 4) * np.prod(
            np.where(fires, rows, 1 - rows), axis=1
        )
        after = SpikingDense(2, spike_size=SIZE, dtype="float64")
        after.build((None, 2))
        after.set_weights([np.eye(2), np.zeros(2)])
        mean, covariance = moments_of(_fire(after, rows, fires), chances)
        rate = chances @ rows
        self.assertAllClose(mean, SIZE * rate, rtol=1e-12, atol=0)
        self.assertAllClose(
            np.diag(covariance),
            SIZE**2 * rate * (1 - rate),
            rtol=1e-12,
            atol=0,
        )

    def test_more_variance_than_dropout_where_spikes_are_rare_eq_137(self):
        # A spike of size r with probability x; or x with probability r.
        for size in (0.1, 0.3, 0.8):
            layer = SpikingDense(
                1,
                firing="unit",
                spike_size=size,
                kernel_initializer="ones",
                dtype="float64",
            )
            for x in (0.05, 0.2, 0.5, 0.95):
                fires, chances = all_masks([1 - x])
                spikes = _fire(layer, np.full((2, 1), x), fires)
                spiking = moments_of(spikes, chances)
                kept, chances = all_masks([1 - size])
                dropout = moments_of(kept * x, chances)
                self.assertAllClose(spiking[0], dropout[0], rtol=1e-12)
                self.assertEqual((spiking[1] > dropout[1]).item(), x < size)

    @parameterized.parameters(*FIRINGS)
    def test_gradient_goes_straight_through(self, firing):
        layer = _layer(firing)
        upstream = np.array([1.0, 2.0])
        shape = (1, 4, 2) if firing == "connection" else (1, 4)
        fires = np.random.default_rng(1).uniform(size=shape) < 0.5
        x = tf.constant([[0.2, 0.9, 0.5, 0.4]], tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(_fire(layer, x, fires) * upstream)
        by_x, by_kernel = tape.gradient(total, [x, layer.kernel.value])
        self.assertAllClose(by_x[0], SIZE * KERNEL @ upstream, rtol=1e-12)
        spikes = SIZE * fires.reshape(4, -1)
        self.assertAllClose(by_kernel, spikes * upstream, rtol=1e-12)

    def test_probabilities_are_clipped(self):
        for firing in FIRINGS:
            layer = SpikingDense(2, firing=firing, kernel_initializer="ones")
            x = np.array([[-3.0, 0.0, 1.0, 7.0]], "float32")
            self.assertAllEqual(layer(x), [[2.0, 2.0]])
            for _ in range(5):
                self.assertAllEqual(layer(x, training=True), [[2.0, 2.0]])
            for word in (0, 2**32 - 1):
                words = tf.fill([layer.weight_units], tf.cast(word, tf.uint32))
                self.assertAllEqual(layer.call_sampled(x, words), [[2.0, 2.0]])

    @parameterized.parameters(*FIRINGS)
    def test_draws_under_xla_have_the_moments(self, firing):
        layer = _layer(firing)
        rows = 20_000
        x = tf.constant(np.tile(X, (rows, 1)))

        @tf.function(jit_compile=True)
        def run(x):
            return layer(x, training=True)

        y = np.asarray(run(x))
        spread = SIZE**2 * KERNEL.T @ np.diag(X * (1 - X)) @ KERNEL
        if firing == "connection":
            spread = np.diag(np.diag(spread))
        error = np.sqrt(np.diag(spread) / rows)
        expected = SIZE * X @ KERNEL + BIAS
        self.assertTrue(np.all(np.abs(y.mean(0) - expected) < 5 * error))
        # The product of two deviations has a variance of at most some 4 V V'.
        scale = np.sqrt(np.outer(np.diag(spread), np.diag(spread)))
        gap = np.abs(np.cov(y.T) - spread)
        self.assertTrue(np.all(gap < 5 * 2 * scale / np.sqrt(rows)))

    @parameterized.product(firing=FIRINGS, shared=(True, False))
    def test_predictions_with_uncertainty(self, firing, shared):
        layer = SpikingDense(2, firing=firing, spike_size=SIZE)
        model = keras.Sequential([keras.Input((4,)), layer])
        layer.set_weights([KERNEL, BIAS])
        x = np.stack([X, X[::-1]]).astype("float32")
        samples = 1000
        predicted = kbd.predict_with_uncertainty(
            model,
            x,
            samples,
            seed=0,
            verbose=0,
            method=kbd.Sampling(masks="shared" if shared else "independent"),
        )
        variance = SIZE**2 * (x * (1 - x)) @ KERNEL**2
        error = np.sqrt(variance / samples)
        mean = SIZE * x @ KERNEL + BIAS
        self.assertTrue(np.all(np.abs(predicted.mean - mean) < 5 * error))
        # The fourth moment is at most some 4 V^2: 5 sqrt(3 / 1000) = 0.27.
        self.assertAllClose(predicted.variance, variance, rtol=0.27, atol=0)
        self.assertAllClose(model.predict(x, verbose=0), mean, rtol=1e-5)

    def test_tools_without_a_rule_for_it_say_so(self):
        model = keras.Sequential([keras.Input((4,)), SpikingDense(2)])
        with self.assertRaisesRegex(BayesdropError, "spiking_dense"):
            kbd.predict_with_uncertainty(
                model, X[None], method="moments", verbose=0
            )
        with self.assertRaisesRegex(BayesdropError, "no plain form"):
            kbd.theory.ensemble_network(model)
