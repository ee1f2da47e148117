# SPDX-License-Identifier: Apache-2.0
"""The penalty of `ADDResidual`, and its scale."""

import keras
import numpy as np
import scipy.optimize
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop import priors
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.regularizers import ADD
from tests.helpers import TestCase
from tests.layers.residual import as_one
from tests.layers.residual import learned
from tests.layers.residual import numbers

layers = keras.layers


class PenaltyTest(TestCase):
    @parameterized.product(
        prior=("half_cauchy", "log_uniform", "inverse_gamma"),
        settings=(
            {},
            {"sigma0": 0.3, "epsilon": 1e-2},
            {"likelihood": GaussianLikelihood(4.0, 3)},
            {"likelihood": GaussianLikelihood(4.0, loss="half_mse")},
        ),
    )
    def test_is_that_of_the_regularizer(self, prior, settings):
        layer = ADDResidual(layers.Dense(4), prior, 10, **settings)
        layer.build((None, 4))
        kernel = layer.block[0].kernel
        regularizer = ADD(prior, 10, **settings)
        (loss,) = layer.losses
        self.assertAllClose(loss, regularizer(kernel), rtol=1e-5)
        scale = layer.learned_scales().matrix
        self.assertAllClose(scale, regularizer.scales(kernel).matrix)
        with tf.GradientTape() as tape:
            (loss,) = layer.losses
        gradient = tape.gradient(loss, kernel.value)
        with tf.GradientTape() as tape:
            loss = regularizer(kernel)
        expected = tape.gradient(loss, kernel.value)
        self.assertAllClose(gradient, expected, rtol=1e-5)

    def test_kernels_of_a_block_share_the_scale(self):
        block = [
            layers.Conv2D(3, 3, padding="same"),
            layers.ReLU(),
            keras.Sequential([layers.SeparableConv2D(5, 2, padding="same")]),
        ]
        layer = learned(*block, projection="auto", sigma0=0.5)
        layer(numbers(1, 4, 4, 2))
        separable = block[2].layers[0]
        kernels = [
            block[0].kernel,
            separable.depthwise_kernel,
            separable.pointwise_kernel,
        ]
        for index, kernel in enumerate(kernels):
            kernel.assign(10.0 ** (-index) * numbers(*kernel.shape))
        regularizer = ADD("half_cauchy", 10, sigma0=0.5)
        whole = as_one(kernels)
        self.assertLen(layer.losses, 3)
        self.assertAllClose(sum(layer.losses), regularizer(whole), rtol=1e-5)
        self.assertAllClose(
            layer.learned_scales().matrix, regularizer.scales(whole).matrix
        )
        # Of the decay 1 / (N sigma0^2 tau^2), the same for all.
        tau = float(layer.learned_scales().matrix)
        with tf.GradientTape() as tape:
            loss = sum(layer.losses)
        gradients = tape.gradient(loss, [kernel.value for kernel in kernels])
        for gradient, kernel in zip(gradients, kernels, strict=True):
            expected = np.asarray(kernel) / (10 * 0.25 * tau**2)
            self.assertAllClose(gradient, expected, rtol=1e-5)
        self.assertIsNone(block[0].bias.regularizer)
        self.assertIsNone(layer.shortcut.kernel.regularizer)

    @parameterized.parameters(
        priors.HalfCauchyScale(0.3), priors.InverseGammaScale(2.0, 0.7)
    )
    def test_scale_is_the_most_likely_one(self, prior):
        layer = ADDResidual(
            [layers.Dense(5), layers.Dense(3)], prior, 10, epsilon=1e-6
        )
        layer.build((None, 3))
        weights = as_one([each.kernel for each in layer.block]).astype(float)

        def minus_log_density(log_tau):
            variance = np.exp(2 * log_tau)
            nats = 0.5 * np.log(2 * np.pi * variance) * weights.size
            nats += 0.5 * np.sum(weights**2) / variance
            return nats - float(prior.log_prob(np.float64(variance)))

        best = scipy.optimize.minimize_scalar(
            minus_log_density, bounds=(-8, 4), options={"xatol": 1e-9}
        )
        tau = float(layer.learned_scales().matrix)
        self.assertAllClose(tau, np.exp(best.x), rtol=1e-5)
        self.assertAllClose(10 * sum(layer.losses), best.fun, rtol=1e-5)

    def test_two_kernels_need_one_scale(self):
        # The reason for it: divided by 100 and multiplied by 100, two kernels
        # make the same outputs. A scale of the first alone would gain by it
        # for ever; one of both does not.
        layer = learned(
            layers.Dense(5, "relu", use_bias=False),
            layers.Dense(3, use_bias=False),
        )
        x = numbers(4, 3)
        before = np.asarray(layer(x)), float(sum(layer.losses))
        first, second = (each.kernel for each in layer.block)
        alone = ADD("half_cauchy", 10)
        alone_before = float(alone(first))
        first.assign(first / 100.0)
        second.assign(second * 100.0)
        self.assertAllClose(layer(x), before[0], rtol=1e-4)
        self.assertLess(float(alone(first)), alone_before - 5.0)
        self.assertGreater(float(sum(layer.losses)), before[1] + 5.0)

    def test_weight_of_the_penalty(self):
        layer = learned(layers.Dense(4))
        layer.build((None, 4))
        whole = float(layer.losses[0])
        prior = float(
            layer.matrix_prior.log_prob(layer.learned_scales().matrix ** 2)
        )
        self.assertAllClose(layer.kl_divergence() - prior, 10 * whole)
        layer.kl_weight.assign(0.25)
        self.assertAllClose(layer.losses[0], 0.25 * whole, rtol=1e-6)

    def test_loss_does_not_depend_on_the_batch_size(self):
        model = keras.Sequential(
            [keras.Input((4,)), learned(layers.Dense(4)), layers.Dense(1)]
        )
        model.compile("sgd", "mse")
        x, y = numbers(12, 4), numbers(12, 1)
        whole = model.evaluate(x, y, batch_size=12, verbose=0)
        parts = model.evaluate(x, y, batch_size=4, verbose=0)
        self.assertAllClose(parts, whole, rtol=1e-5)
        error = float(np.mean((model.predict(x, verbose=0) - y) ** 2))
        self.assertAllClose(whole, error + sum(model.losses), rtol=1e-5)

    def test_counts_once_for_a_layer_called_twice(self):
        layer = learned(layers.Dense(4))
        inputs = keras.Input((4,))
        model = keras.Model(inputs, layer(layer(inputs)))
        self.assertLen(model.losses, 1)

    def test_regularizers_of_the_user_stay(self):
        inner = layers.Dense(4, kernel_regularizer="l2", bias_regularizer="l1")
        layer = learned(inner)
        layer.build((None, 4))
        inner.bias.assign(np.ones(4))
        alone = ADD("half_cauchy", 10)(inner.kernel)
        expected = alone + inner.kernel_regularizer(inner.kernel) + 0.04
        self.assertAllClose(sum(layer.losses), expected, rtol=1e-5)
        again = learned(inner)  # The weights are there once.
        again.build((None, 4))
        self.assertAllClose(sum(again.losses), expected, rtol=1e-5)
        config = inner.get_config()["kernel_regularizer"]
        self.assertEqual(config["class_name"], "L2")

    def test_frozen_layers(self):
        layer = learned(layers.Dense(5), layers.Dense(4))
        layer.build((None, 4))
        second = layer.losses[1]
        scale = layer.learned_scales().matrix
        layer.block[0].trainable = False
        self.assertAllClose(layer.losses, [second])
        self.assertEqual(layer.learned_scales().matrix, scale)
        # The scale, of both, has no gradient. Here one would show: with the
        # first kernel goes the term that makes the scale the best one.
        kernel = layer.block[1].kernel
        with tf.GradientTape() as tape:
            (loss,) = layer.losses
        gradient = tape.gradient(loss, kernel.value)
        expected = np.asarray(kernel) / (10 * scale**2)
        self.assertAllClose(gradient, expected, rtol=1e-5)
        layer.trainable = False
        self.assertEmpty(layer.losses)

    def test_scale_in_a_variable(self):
        layer = learned(layers.Dense(4), scales="variable")
        layer.build((None, 4))
        inline = learned(layers.Dense(4))
        inline.build((None, 4))
        inline.block[0].kernel.assign(layer.block[0].kernel)
        self.assertTrue(layer.scales_in_variables)
        self.assertFalse(inline.scales_in_variables)
        self.assertEqual(layer.learned_scales(), (None, 1.0))
        self.assertGreater(float(layer.losses[0]), float(inline.losses[0]))
        layer.update_scales()
        self.assertAllClose(layer.losses, inline.losses, rtol=1e-6)
        best = inline.learned_scales().matrix
        self.assertAllClose(layer.learned_scales().matrix, best, rtol=1e-6)
        layer.block[0].kernel.assign(np.zeros((4, 4)))
        self.assertAllClose(layer.learned_scales().matrix, best, rtol=1e-6)
        with self.assertRaisesRegex(
            BayesdropError, "no scale to update. Expected .*'variable'"
        ):
            inline.update_scales()

    def test_layers_with_a_prior_of_their_own(self):
        # A kernel with a posterior has its KL, and is left to it.
        posterior = VariationalDense(5, num_train_examples=10, prior="gaussian")
        layer = learned(posterior, layers.Dense(4))
        layer.build((None, 4))
        regularizer = ADD("half_cauchy", 10)
        expected = regularizer(layer.block[1].kernel)
        self.assertLen(layer.losses, 2)
        self.assertAllClose(layer.losses[1], expected, rtol=1e-5)
        # Layers with a scale of their own need no other.
        for inner in (
            BayesianDense(4, 10, structure="add"),
            layers.Dense(4, kernel_regularizer=regularizer),
        ):
            layer = ADDResidual(inner)
            layer.build((None, 4))
            self.assertLen(layer.losses, 1)
            self.assertIsNone(layer.kl_weight)
            self.assertEqual(layer.learned_scales(), (None, None))

    def test_annealed(self):
        model = keras.Sequential([learned(layers.Dense(4)), layers.Dense(1)])
        model.compile("sgd", "mse")
        annealing = kbd.callbacks.KLAnnealing(epochs=4)
        data = numbers(8, 4), numbers(8, 1)
        model.fit(*data, epochs=2, verbose=0, callbacks=[annealing])
        weight = float(model.layers[0].kl_weight)
        self.assertGreater(weight, 0.0)
        self.assertLess(weight, 1.0)
