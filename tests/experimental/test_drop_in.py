# SPDX-License-Identifier: Apache-2.0
"""Units set to one: moments by enumeration, and why it does not work."""

from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.experimental import DropIn
from keras_bayesdrop.experimental import drop_in
from tests.helpers import TestCase
from tests.theory.masks import all_masks
from tests.theory.masks import moments_of

RATE = 0.3


def _outputs(x, kept):
    """Outputs of the layer in training, with chosen units kept."""
    u = tf.constant(np.where(kept, RATE, 0.0))
    layer = DropIn(RATE, dtype="float64")
    with mock.patch.object(drop_in, "uniform", lambda *_: u):
        return layer(np.tile(x, (len(kept), 1)), training=True)


def _spread(x, kernel):
    """Variances of the sums after dropin, and after dropout, of all masks."""
    kept, chances = all_masks(np.full(len(x), RATE))
    _, dropin = moments_of(_outputs(x, kept) @ kernel, chances)
    _, dropout = moments_of(kept * x @ kernel, chances)
    return np.diag(dropin), np.diag(dropout)


def _sparse_problem():
    """Inputs [256, 30], one in ten of them above 0, and targets [256, 1]."""
    rng = np.random.default_rng(0)
    x = (rng.uniform(size=(256, 30)) < 0.1) * rng.uniform(size=(256, 30))
    targets = np.tanh(x @ rng.normal(size=(30, 4)) * 2).sum(1, keepdims=True)
    targets = (targets - targets.mean()) / targets.std()
    return x.astype("float32"), targets.astype("float32")


def _trained(noise, x, targets):
    """A network with noise of rate 1/2 before both of its layers."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((30,)),
            noise(0.5, seed=1),
            keras.layers.Dense(32, activation="relu"),
            noise(0.5, seed=2),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(0.02), "mse", jit_compile=True)
    model.fit(x, targets, batch_size=32, epochs=20, shuffle=False, verbose=0)
    return model


class DropInTest(TestCase):
    def test_moments_are_those_of_all_masks(self):
        x = np.array([0.0, 0.2, 0.7, 1.0])
        kept, chances = all_masks(np.full(4, RATE))
        outputs = _outputs(x, kept)
        self.assertAllEqual(outputs, np.where(kept, x, 1.0))
        mean, covariance = moments_of(outputs, chances)
        expected = (1 - RATE) * x + RATE
        self.assertAllClose(mean, expected, rtol=1e-12, atol=0)
        elsewhere = DropIn(RATE, dtype="float64")(x)
        self.assertAllClose(elsewhere, expected, rtol=1e-12, atol=0)
        variance = np.diag(RATE * (1 - RATE) * (1 - x) ** 2)
        self.assertAllClose(covariance, variance, rtol=0, atol=1e-12)

    def test_raises_the_variance_of_sparse_activities_eq_189(self):
        rng = np.random.default_rng(0)
        kernel = rng.normal(size=(8, 5))
        noise = RATE * (1 - RATE)
        for low, high in ((0.0, 0.3), (0.7, 1.0)):
            x = rng.uniform(low, high, size=8)
            dropin, dropout = _spread(x, kernel)
            weights = noise * kernel.T**2
            self.assertAllClose(dropin, weights @ (1 - x) ** 2, rtol=1e-12)
            self.assertAllClose(dropout, weights @ x**2, rtol=1e-12)
            # (0.7 / 0.3)^2 is 5.4; and the other way for active units.
            ratio = dropin / dropout
            self.assertTrue(np.all(ratio > 5 if high < 0.5 else ratio < 0.2))
        silent, none = _spread(np.zeros(8), kernel)
        self.assertAllEqual(none, np.zeros(5))
        self.assertAllClose(silent, noise * np.sum(kernel**2, 0), rtol=1e-12)

    def test_is_dropout_of_the_complement_before_a_bias(self):
        rng = np.random.default_rng(1)
        x, kernel, bias = (
            rng.uniform(size=4),
            rng.normal(size=(4, 3)),
            rng.normal(size=3),
        )
        kept, _ = all_masks(np.full(4, RATE))
        dropin = _outputs(x, kept) @ kernel + bias
        dropout = kept * (1 - x) @ -kernel + (bias + kernel.sum(0))
        self.assertAllClose(dropin, dropout, rtol=0, atol=1e-12)

    @pytest.mark.slow
    def test_does_not_work_on_sparse_inputs(self):
        # Both have seeds throughout. With seeds 0, 1 and 2, and relu or
        # sigmoid, the error of dropout was 0.36 to 0.53 and that of dropin
        # 0.98 to 1.01, where the variance of the targets is 1.
        x, targets = _sparse_problem()
        errors, ratios = [], []
        for noise in (keras.layers.Dropout, DropIn):
            model = _trained(noise, x, targets)
            plain = model(x).numpy()
            errors.append(np.mean((plain - targets) ** 2))
            many = model(np.tile(x, (100, 1)), training=True).numpy()
            noise_variance = many.reshape(100, -1).var(0).mean()
            ratios.append(noise_variance / plain.var())
        self.assertLess(errors[0], 0.65)
        self.assertGreater(errors[1], 0.9)
        # The variance over masks, in units of the variance of predictions.
        self.assertGreater(ratios[1], 5 * ratios[0])

    def test_draws_under_xla(self):
        layer = DropIn(RATE)

        @tf.function(jit_compile=True)
        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x, training=True)
            return y, tape.gradient(y, x)

        x = np.full((200, 100), 0.25, "float32")
        y, slope = (np.asarray(each) for each in gradient(tf.constant(x)))
        self.assertAllEqual(np.unique(y), [0.25, 1.0])
        self.assertAllEqual(slope, (y != 1.0).astype("float32"))
        # 5 standard errors: 5 sqrt(0.21 / 20000) = 0.0162.
        self.assertBetween(np.mean(y == 1.0), RATE - 0.0162, RATE + 0.0162)
        self.assertGreater(len(np.unique(y, axis=0)), 190)
        self.assertGreater(len(np.unique(y.T, axis=0)), 95)

    @parameterized.parameters((0.0, 0.25), (1.0, 1.0))
    def test_rates_at_the_ends(self, rate, expected):
        x = np.full((3, 4), 0.25, "float32")
        for training in (False, True):
            y = DropIn(rate)(x, training=training)
            self.assertAllEqual(y, np.full((3, 4), expected))
