# SPDX-License-Identifier: Apache-2.0
"""Residual blocks with a scale: what they compute, and what they cost."""

import os

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

layers = keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def learned(*block, **settings):
    """A block with a half-Cauchy scale, for 10 examples."""
    return ADDResidual(list(block), "half_cauchy", 10, **settings)


def drawn(*block, **settings):
    return ADDResidual(list(block), mode="noise", **settings)


def as_one(kernels):
    """All weights of kernels, in a row."""
    return np.concatenate([np.ravel(kernel) for kernel in kernels])


class Probe(layers.Layer):
    """Returns the mask that reached it, and ones without one."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is None:
            return keras.ops.ones_like(inputs[..., 0])
        return keras.ops.cast(mask, "float32")


class ContractTest(TestCase):
    @parameterized.named_parameters(
        ("dense", lambda: [layers.Dense(7, "relu")], (3, 7), {}, (2, 1, 1)),
        (
            "conv",
            lambda: [
                layers.BatchNormalization(),
                layers.Conv2D(4, 3, padding="same", use_bias=False),
                layers.ReLU(),
                layers.Conv2D(4, 1),
            ],
            (3, 5, 5, 2),
            {"projection": "auto"},
            (6, 3, 2),
        ),
        (
            "variable",
            lambda: [layers.Dense(7)],
            (3, 7),
            {"scales": "variable"},
            (2, 2, 1),
        ),
    )
    def test_learned(self, block, shape, settings, counts):
        trained, fixed, losses = counts
        self.run_layer_test(
            ADDResidual,
            init_kwargs={
                "block": block(),
                "scale_prior": "half_cauchy",
                "num_train_examples": 10,
                **settings,
            },
            input_shape=shape,
            expected_output_shape=(*shape[:-1], 4) if len(shape) > 2 else shape,
            expected_num_trainable_weights=trained,
            expected_num_non_trainable_weights=fixed,
            expected_num_seed_generators=0,
            expected_num_losses=losses,
            supports_masking=len(shape) == 2,
        )

    @parameterized.parameters(
        {"rate": 0.4},
        {"rate": 0.4, "noise": "gaussian", "noise_on": "input"},
        {"noise": "rayleigh", "projection": "dense"},
    )
    def test_drawn(self, **settings):
        self.run_layer_test(
            ADDResidual,
            init_kwargs={
                "block": layers.Dense(7),
                "mode": "noise",
                "seed": 3,
                **settings,
            },
            input_shape=(3, 7),
            expected_output_shape=(3, 7),
            expected_num_trainable_weights=2 + ("projection" in settings),
            expected_num_non_trainable_weights=0,
            expected_num_seed_generators=1,
            expected_num_losses=0,
            supports_masking=True,
        )

    def test_config(self):
        settings = {
            "scale_prior": priors.InverseGammaScale(2.0, 0.5),
            "num_train_examples": 10,
            "projection": layers.Dense(4, name="straight"),
            "sigma0": 0.5,
            "epsilon": 1e-3,
            "scales": "variable",
            "likelihood": GaussianLikelihood(2.0, 3, "half_mse"),
            "name": "mine",
        }
        layer = ADDResidual(layers.Dense(4), **settings)
        copy = ADDResidual.from_config(layer.get_config())
        self.assertEqual(copy.get_config(), layer.get_config())
        self.assertEqual(copy.matrix_prior, settings["scale_prior"])
        self.assertEqual(copy.shortcut.name, "straight")
        for name in ("sigma0", "epsilon", "scales", "likelihood"):
            self.assertEqual(getattr(copy, name), settings[name])
        noise = kbd.noise.LogNormal(0.3)
        layer = drawn(layers.Dense(4), noise=noise, noise_on="input", seed=4)
        copy = ADDResidual.from_config(layer.get_config())
        self.assertEqual(copy.get_config(), layer.get_config())
        self.assertEqual(copy.noise.noise, noise)
        self.assertEqual((copy.noise_on, copy.seed), ("input", 4))

    @parameterized.parameters("mixed_float16", "mixed_bfloat16", "float64")
    def test_dtypes(self, policy):
        keras.config.set_dtype_policy(policy)
        wide = policy.removeprefix("mixed_")
        for layer in (
            learned(layers.Dense(7, "relu")),
            drawn(layers.Dense(7, "relu"), rate=0.4),
            drawn(layers.Dense(5), noise="beta", projection="auto"),
        ):
            y = layer(numbers(3, 7), training=True)
            self.assertEqual(y.dtype.name, wide)
            again = ADDResidual.from_config(layer.get_config())
            self.assertEqual(again.dtype_policy.name, policy)
            self.assertTrue(all(v.dtype != "float16" for v in layer.weights))
        keras.config.set_dtype_policy("float32")

    def test_penalty_in_mixed_precision(self):
        kernel = numbers(4, 4)
        penalties = []
        for policy in ("float32", "mixed_float16"):
            layer = learned(layers.Dense(4, dtype=policy), dtype=policy)
            layer.build((None, 4))
            layer.block[0].kernel.assign(kernel)
            penalties.append(float(layer.losses[0]))
        self.assertEqual(*penalties)


class OutputTest(TestCase):
    def test_is_the_block_beside_its_input(self):
        block = [layers.Dense(9, "tanh"), layers.Dense(7)]
        layer = learned(*block)
        x = numbers(5, 7)
        expected = x + block[1](block[0](x))
        self.assertAllClose(layer(x), expected, rtol=1e-6)
        self.assertAllClose(layer(x, training=True), expected, rtol=1e-6)

    def test_projections(self):
        x = numbers(5, 7)
        layer = learned(layers.Dense(3), projection="auto")
        y = layer(x)
        self.assertFalse(layer.shortcut.use_bias)
        straight = x @ np.asarray(layer.shortcut.kernel)
        self.assertAllClose(y, straight + layer.block[0](x), rtol=1e-5)
        layer = learned(layers.Dense(7), projection="auto")
        layer(x)
        self.assertIsNone(layer.shortcut)
        layer = learned(layers.Dense(7), projection="dense")
        layer(x)
        self.assertEqual(layer.shortcut.kernel.shape, (7, 7))
        pool = layers.AveragePooling2D(2, padding="same")
        conv = layers.Conv2D(3, 3, strides=2, padding="same")
        layer = learned(conv, projection=pool)
        x = numbers(2, 5, 6, 3)
        self.assertAllClose(layer(x), pool(x) + conv(x), rtol=1e-5)

    def test_projection_of_images(self):
        layer = learned(layers.Conv2D(4, 3, padding="same"), projection="auto")
        x = numbers(2, 5, 6, 3)
        self.assertEqual(layer(x).shape, (2, 5, 6, 4))
        self.assertEqual(layer.shortcut.kernel.shape, (3, 4))

    def test_open_axes(self):
        inputs = keras.Input((None, None, 3))
        layer = learned(layers.Conv2D(3, 3, padding="same"))
        model = keras.Model(inputs, layer(inputs))
        self.assertEqual(model.output_shape, (None, None, None, 3))
        self.assertEqual(model(numbers(1, 4, 6, 3)).shape, (1, 4, 6, 3))

    def test_models_inside(self):
        inner = keras.Sequential([layers.Dense(5, "relu"), layers.Dense(7)])
        inputs = keras.Input((7,))
        functional = keras.Model(inputs, layers.Dense(7)(inputs))
        layer = learned(inner, functional)
        for rows in (3, 5):
            x = numbers(rows, 7)
            expected = x + functional(inner(x))
            self.assertAllClose(layer(x), expected, rtol=1e-6)
        self.assertLen(layer.losses, 3)

    def test_batch_normalization_inside_knows_of_training(self):
        norm = layers.BatchNormalization()
        layer = learned(norm, layers.Dense(7))
        x = 3.0 + numbers(5, 7)
        layer(x)
        self.assertAllEqual(norm.moving_mean, np.zeros(7))
        layer(x, training=True)
        self.assertAllClose(norm.moving_mean, 0.01 * x.mean(axis=0), rtol=1e-4)

    @parameterized.parameters("float32", "mixed_float16")
    def test_masks_pass_through(self, policy):
        keras.config.set_dtype_policy(policy)
        x = numbers(2, 4, 7)
        x[1, 2:] = 0.0
        model = keras.Sequential(
            [
                layers.Masking(),
                learned(layers.Dense(7), projection="dense"),
                drawn(layers.Dense(7), rate=0.5),
                Probe(),
            ]
        )
        expected = [[1, 1, 1, 1], [1, 1, 0, 0]]
        self.assertAllEqual(model(x, training=True), expected)
        keras.config.set_dtype_policy("float32")

    def test_layers_that_do_without_masks(self):
        layer = learned(layers.Conv1D(7, 3, padding="same"))
        self.assertFalse(layer.supports_masking)


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


class NoiseTest(TestCase):
    def test_stochastic_depth(self):
        rate, rows = 0.3, 20_000
        layer = drawn(layers.Dense(6, "tanh"), rate=rate, seed=1)
        x = numbers(rows, 3)
        x = np.concatenate([x, x], axis=1)
        block = np.asarray(layer.block[0](x))
        added = np.asarray(layer(x, training=True)) - x
        kept = np.abs(added).max(axis=1) > 0
        expected = np.where(kept[:, None], block / (1 - rate), 0.0)
        self.assertAllClose(added, expected, atol=1e-5)
        # 4 standard errors of 20,000 draws, one a row.
        error = 4 * np.sqrt(rate * (1 - rate) / rows)
        self.assertAllClose(kept.mean(), 1 - rate, atol=error, rtol=0)
        other = np.asarray(layer(x, training=True)) - x
        self.assertNotAllClose(other, added)
        for training in (None, False):
            y = layer(x, training=training)
            self.assertAllClose(y, x + block, rtol=1e-5, atol=1e-6)

    @parameterized.parameters(*kbd.noise.families.NAMES)
    def test_families(self, name):
        rate = 0.4 if name in ("bernoulli", "gaussian") else None
        x = np.abs(numbers(400, 5)) + 0.1
        factors = {}
        for place in ("branch", "input"):
            layer = drawn(
                layers.Dense(5, use_bias=False, kernel_initializer="identity"),
                rate=rate,
                noise=name,
                noise_on=place,
                seed=1,
            )
            factor = (np.asarray(layer(x, training=True)) - x) / x
            # One number for all units of a row. A small factor is what is
            # left of a difference: rounding of x, up to 40 times it.
            spread = np.ptp(factor, axis=1)
            self.assertAllClose(spread, np.zeros(400), atol=2e-5)
            factors[place] = factor[:, 0]
        # A linear block does not care where.
        self.assertAllClose(factors["branch"], factors["input"], atol=2e-5)
        self.assertGreater(np.std(factors["branch"]), 0.1)

    def test_seeds(self):
        x = numbers(50, 4)
        draws = [
            drawn(
                layers.Dense(4, kernel_initializer="ones"), rate=0.5, seed=seed
            )(x, training=True)
            for seed in (1, 1, 2)
        ]
        self.assertAllEqual(draws[0], draws[1])
        self.assertNotAllClose(draws[0], draws[2])

    def test_rates_at_the_ends(self):
        x = numbers(20, 4)
        layer = drawn(layers.Dense(4), rate=0.0)
        self.assertAllEqual(layer(x, training=True), layer(x))
        layer = drawn(layers.Dense(4), rate=1.0)
        self.assertAllEqual(layer(x, training=True), x)


class FitTest(TestCase):
    def test_compiled_in_mixed_precision(self):
        keras.config.set_dtype_policy("mixed_float16")
        model = keras.Sequential(
            [
                keras.Input((6, 6, 2)),
                learned(
                    layers.Conv2D(4, 3, padding="same", activation="relu"),
                    projection="auto",
                ),
                drawn(layers.Conv2D(4, 3, padding="same"), rate=0.3),
                drawn(
                    layers.Conv2D(4, 1), noise="log_normal", noise_on="input"
                ),
                layers.Flatten(),
                layers.Dense(1, dtype="float32"),
            ]
        )
        model.compile("adam", "mse", jit_compile=True)
        before = [np.array(v) for v in model.trainable_variables]
        # The first steps in float16 only find a scale of the loss.
        history = model.fit(
            numbers(8, 6, 6, 2),
            numbers(8, 1),
            batch_size=1,
            epochs=2,
            verbose=0,
        )
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))
        for old, new in zip(before, model.trainable_variables, strict=True):
            self.assertNotAllClose(old, new, msg=new.path)
        keras.config.set_dtype_policy("float32")

    def test_weights_of_no_use_shrink_to_nothing(self):
        # Nothing to learn: the targets are 0, and so is the readout.
        layer = learned(layers.Dense(4, use_bias=False))
        readout = layers.Dense(1, kernel_initializer="zeros", trainable=False)
        model = keras.Sequential([keras.Input((4,)), layer, readout])
        rate = keras.optimizers.schedules.CosineDecay(0.05, 200)
        model.compile(keras.optimizers.Adam(rate), "mse")
        x = numbers(2000, 4)
        model.fit(x, np.zeros((2000, 1)), batch_size=10, verbose=0)
        # Down to epsilon, 1e-4, from sqrt(2 / 8).
        self.assertLess(float(layer.learned_scales().matrix), 1.1e-4)


class SavingTest(TestCase):
    def make(self):
        inner = keras.Sequential(
            [
                keras.Input((6,)),
                learned(
                    layers.Dense(5, "relu"), layers.Dense(4), projection="auto"
                ),
                drawn(layers.Dense(4), rate=0.4, seed=2),
            ]
        )
        inputs = keras.Input((6,))
        straight = layers.Dense(2)
        last = learned(
            layers.Dense(2), projection=straight, scales="variable", name="last"
        )
        model = keras.Model(inputs, last(inner(inputs)))
        last.update_scales()
        last.kl_weight.assign(0.5)
        return model

    def test_clone(self):
        model = self.make()
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        x = numbers(3, 6)
        self.assertAllEqual(clone(x), model(x))
        self.assertAllClose(clone.losses, model.losses, rtol=1e-6)
        # The penalty of the clone is that of its own variables.
        clone.get_layer("last").block[0].kernel.assign(np.ones((4, 2)))
        self.assertNotAllClose(clone.losses[-1], model.losses[-1])

    def test_saved_model_is_the_same(self):
        model = self.make()
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        last = loaded.get_layer("last")
        self.assertEqual(float(last.kl_weight), 0.5)
        self.assertEqual(last.scale, model.get_layer("last").scale)
        self.assertAllClose(loaded.losses, model.losses, rtol=1e-6)
        x = numbers(3, 6)
        self.assertAllEqual(loaded(x), model(x))
        samples = [
            kbd.predict_with_uncertainty(
                each, x, 9, seed=3, return_samples=True, verbose=0
            ).samples
            for each in (model, loaded)
        ]
        self.assertAllEqual(*samples)
        self.assertGreater(samples[0].std(axis=0).min(), 0.0)

    def test_weights_alone(self):
        path = os.path.join(self.get_temp_dir(), "a.weights.h5")
        model, other = self.make(), self.make()
        model.save_weights(path)
        self.assertNotAllClose(model(numbers(3, 6)), other(numbers(3, 6)))
        other.load_weights(path)
        self.assertAllEqual(model(numbers(3, 6)), other(numbers(3, 6)))


class BadInputTest(TestCase):
    @parameterized.parameters(
        ({"block": None}, "block"),
        ({"block": []}, "block"),
        ({"block": [layers.Dense(4), "dense"]}, "block"),
        ({"mode": "map"}, "mode"),
        ({"scale_prior": "gamma"}, "scale_prior"),
        ({"scale_prior": 1.0}, "scale_prior"),
        ({"num_train_examples": None}, "num_train_examples"),
        ({"num_train_examples": 0}, "num_train_examples"),
        ({"scale_prior": None}, "num_train_examples"),
        ({"sigma0": 0.0}, "sigma0"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1e-20}, "epsilon"),
        ({"scales": "both"}, "scales"),
        ({"projection": "linear"}, "projection"),
        ({"projection": 4}, "projection"),
        ({"noise_on": "output"}, "noise_on"),
        ({"rate": 0.5}, "rate"),
        ({"noise": "bernoulli"}, "noise"),
        ({"likelihood": "mae"}, "likelihood"),
        ({"likelihood": "mse"}, "likelihood"),
        ({"likelihood": 0}, "likelihood"),
    )
    def test_arguments(self, arguments, name):
        settings = {
            "block": layers.Dense(4),
            "scale_prior": "half_cauchy",
            "num_train_examples": 10,
            **arguments,
        }
        with self.assertRaisesRegex(
            BayesdropError,
            f"Invalid value for argument `{name}`. Expected .*. "
            f"Received: {name}=",
        ):
            ADDResidual(**settings)

    @parameterized.parameters(
        ({}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"rate": 0.5, "noise": "cauchy"}, "noise"),
        ({"rate": 0.5, "noise": "rayleigh"}, "rate"),
        ({"rate": 0.5, "scale_prior": "half_cauchy"}, "scale_prior"),
        ({"rate": 0.5, "num_train_examples": 10}, "num_train_examples"),
        ({"rate": 0.5, "scales": "variable"}, "scales"),
        ({"rate": 0.5, "likelihood": GaussianLikelihood(1.0)}, "likelihood"),
    )
    def test_arguments_of_noise(self, arguments, name):
        with self.assertRaisesRegex(
            BayesdropError,
            f"Invalid value for argument `{name}`. Expected .*. "
            f"Received: {name}=",
        ):
            ADDResidual(layers.Dense(4), mode="noise", **arguments)

    def test_noise_without_a_mean(self):
        with self.assertRaisesRegex(
            BayesdropError, "Expected noise with a finite mean other than 0"
        ):
            drawn(layers.Dense(4), noise=kbd.noise.CenteredGaussian(1.0))

    def test_names(self):
        for block in (
            [layers.Dense(4, name="a"), layers.Dense(4, name="a")],
            [layers.Dense(4, name="add")],
        ):
            with self.assertRaisesRegex(
                BayesdropError,
                "need names of their own. Expected .* Received: ",
            ):
                learned(*block)

    @parameterized.parameters(None, "dense", "auto")
    def test_shapes(self, projection):
        x = numbers(2, 6, 6, 3)
        layer = learned(layers.Conv2D(5, 3), projection=projection)
        with self.assertRaisesRegex(
            BayesdropError,
            "changes the shape, .* Expected an output of shape .* Received: "
            r"an output of shape \(None, 4, 4, 5\), projection=",
        ):
            layer(x)

    def test_projection_to_another_shape(self):
        layer = learned(layers.Dense(5), projection=layers.Dense(4))
        with self.assertRaisesRegex(BayesdropError, "its projection cannot be"):
            layer(numbers(2, 3))

    def test_blocks_without_weights(self):
        for block in (layers.ReLU(), VariationalDense(4, 9, prior="gaussian")):
            with self.assertRaisesRegex(
                BayesdropError, "no weights for its.*Expected .*Received: "
            ):
                learned(block)(numbers(2, 4))

    def test_blocks_without_a_scale(self):
        for block in (layers.Dense(4), BayesianDense(4, 10, structure="ard")):
            with self.assertRaisesRegex(
                BayesdropError, "no scale to learn. Expected .*Received: "
            ):
                ADDResidual(block)(numbers(2, 4))
