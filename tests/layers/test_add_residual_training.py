# SPDX-License-Identifier: Apache-2.0
"""`ADDResidual`: noise, training and saving."""

import os

import keras
import numpy as np
from absl.testing import parameterized

import keras_bayesdrop as kbd
from tests.helpers import TestCase
from tests.layers.residual import drawn
from tests.layers.residual import learned
from tests.layers.residual import numbers

layers = keras.layers


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
