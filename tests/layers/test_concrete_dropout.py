# SPDX-License-Identifier: Apache-2.0
"""`ConcreteDropout`: the Keras contract, its noise, bad input."""

import math
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import ConcreteDropout
from keras_bayesdrop.layers._dropout import concrete_noise
from keras_bayesdrop.layers._dropout import dropped_kernel
from keras_bayesdrop.losses import GaussianLikelihood
from tests.helpers import TestCase
from tests.layers.concrete import CONV_1D
from tests.layers.concrete import CONV_2D
from tests.layers.concrete import CONV_3D
from tests.layers.concrete import DENSE
from tests.layers.concrete import EINSUM
from tests.layers.concrete import EINSUM_HEADS
from tests.layers.concrete import SEPARABLE_1D
from tests.layers.concrete import TIME
from tests.layers.concrete import dense_with
from tests.layers.concrete import logit
from tests.layers.concrete import numbers

layers = keras.layers


class ContractTest(TestCase):
    @parameterized.named_parameters(
        ("dense", *DENSE),
        ("conv_2d", *CONV_2D),
        ("separable_1d", *SEPARABLE_1D),
        ("einsum_heads", *EINSUM_HEADS),
    )
    def test_keras_contract(self, make, shape, units):
        inner = make()
        inner.build(shape)
        trained = len(inner.trainable_variables)
        self.run_layer_test(
            ConcreteDropout,
            init_kwargs={"layer": make(), "num_train_examples": 10, "seed": 1},
            input_shape=shape,
            expected_output_shape=inner.compute_output_shape(shape),
            expected_num_trainable_weights=trained + 1,
            expected_num_non_trainable_weights=1,
            expected_num_seed_generators=1,
            expected_num_losses=1,
            supports_masking=inner.supports_masking,
            run_mixed_precision_check=False,
        )

    def test_config(self):
        settings = {
            "num_train_examples": 10,
            "length_scale": 0.5,
            "init_rate": 0.3,
            "temperature": 0.2,
            "sampling": "concrete",
            "seed": 4,
        }
        likelihood = GaussianLikelihood(2.0, 3, "half_mse")
        layer = ConcreteDropout(
            layers.Dense(3), likelihood=likelihood, **settings
        )
        config = layer.get_config()
        self.assertEqual({key: config[key] for key in settings}, settings)
        again = ConcreteDropout.from_config(config)
        self.assertEqual(again.likelihood, likelihood)
        self.assertEqual(again.layer.units, 3)

    def test_masks_pass_through(self):
        x = np.ones((2, 3, 4), "float32")
        x[0, 1] = 0.0
        layer = ConcreteDropout(layers.Dense(5), 10)
        y = layer(layers.Masking()(x), training=True)
        self.assertAllEqual(y._keras_mask, np.any(x != 0, axis=-1))

    @parameterized.product(
        policy=("mixed_float16", "mixed_bfloat16", "bfloat16", "float64")
    )
    def test_dtypes(self, policy):
        layer = ConcreteDropout(
            layers.Dense(3, dtype=policy), 10, init_rate=0.01, dtype=policy
        )
        y = layer(np.ones((4, 7)), training=True)
        self.assertEqual(y.dtype.name, policy.removeprefix("mixed_"))
        wide = "float64" if policy == "float64" else "float32"
        self.assertEqual(layer.noise.logit.dtype, wide)
        self.assertEqual(layer.losses[0].dtype.name, "float32")
        # A unit counts as dropped where z > 1/2, so u > 1 - rate. 4 standard
        # errors of 140_000 draws: 4 * sqrt(0.01 * 0.99 / 140_000) = 0.00106.
        # Drawn in bfloat16, the rate would be 0.0156 or 0.0078.
        noise = layer.noise(np.ones((20_000, 7)), training=True)
        dropped = keras.ops.convert_to_numpy(keras.ops.cast(noise, "float32"))
        self.assertAllClose((dropped < 0.5).mean(), 0.01, atol=0.00107, rtol=0)

    @parameterized.product(policy=("mixed_float16", "mixed_bfloat16"))
    def test_fits_in_mixed_precision(self, policy):
        inner = layers.Dense(1, dtype=policy)
        model = keras.Sequential(
            [keras.Input((7,)), ConcreteDropout(inner, 10, dtype=policy)]
        )
        model.compile("adam", "mse", run_eagerly=True)
        history = model.fit(numbers(16, 7), np.ones((16, 1)), verbose=0)
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))
        self.assertNotEqual(
            float(model.layers[0].noise.logit), np.float32(logit(0.1))
        )


class NoiseTest(TestCase):
    def test_training_applies_the_relaxed_mask(self):
        layer = ConcreteDropout(
            layers.Dense(1), 10, init_rate=0.3, temperature=0.4, seed=5
        )
        x = numbers(40, 7)
        layer.build(x.shape)
        u = keras.random.uniform(x.shape, seed=keras.random.SeedGenerator(5))
        u = keras.ops.convert_to_numpy(u).astype("float64")
        z = 1 / (1 + np.exp(-(logit(0.3) + np.log(u / (1 - u))) / 0.4))
        # The exponent is below 17 / 0.4 and right to 2^-23 of itself: 5e-6.
        self.assertAllClose(
            layer.noise(x, training=True), x * (1 - z) / 0.7, rtol=2e-5
        )
        self.assertAllClose(layer.rate, 0.3, rtol=1e-7)

    def test_off_outside_of_training(self):
        layer = ConcreteDropout(layers.Dense(3), 10)
        x = numbers(4, 7)
        y = layer(x)
        self.assertAllEqual(y, layer.layer(x))
        self.assertAllEqual(y, layer(x, training=False))
        self.assertNotAllClose(y, layer(x, training=True))

    def test_extreme_uniform_numbers_are_harmless(self):
        layer = dense_with(np.ones((3, 1)))
        u = tf.constant([[0.0, 2.0**-23, 1.0 - 2.0**-24]])
        with mock.patch.object(concrete_noise, "uniform", lambda *_: u):
            with tf.GradientTape() as tape:
                y = layer.noise(tf.ones((1, 3)), training=True)
            gradient = tape.gradient(y, layer.noise.logit.value)
        # The first two are kept, the last dropped; only 1 / (1 - rate) moves:
        # d(1 + exp(logit)) = rate / (1 - rate) = 1/9 for each.
        self.assertAllClose(y, [[10 / 9, 10 / 9, 0.0]], rtol=1e-6)
        self.assertAllClose(gradient, 2 / 9, rtol=1e-6)

    @parameterized.named_parameters(
        ("conv_1d", *CONV_1D), ("conv_2d", *CONV_2D), ("conv_3d", *CONV_3D)
    )
    def test_convolutions_drop_whole_maps(self, make, shape, units):
        layer = ConcreteDropout(make(), 10, temperature=2.0, seed=1)
        x = np.ones(shape, "float32")
        layer.build(shape)
        y = np.asarray(layer.noise(x, training=True))
        flat = y.reshape(shape[0], -1, units)
        self.assertAllEqual(flat, np.broadcast_to(flat[:, :1], flat.shape))
        self.assertLen(np.unique(flat[:, 0]), shape[0] * units)

    @parameterized.named_parameters(("time", *TIME), ("einsum", *EINSUM))
    def test_dense_layers_drop_entries(self, make, shape, units):
        # Hot enough that no two masks are rounded to the same number.
        layer = ConcreteDropout(make(), 10, temperature=2.0, seed=1)
        layer.build(shape)
        y = np.asarray(layer.noise(np.ones(shape, "float32"), training=True))
        self.assertLen(np.unique(y), math.prod(shape))

    def test_channels_first(self):
        inner = layers.Conv2D(3, 2, data_format="channels_first")
        layer = ConcreteDropout(inner, 10)
        layer.build((None, 5, 6, 4))
        self.assertEqual(layer.noise.noise_shape, (None, None, 1, 1))
        self.assertEqual(dropped_kernel.count_units(inner, (None, 5, 6, 4)), 5)

    def test_same_seed_same_training(self):
        x = numbers(4, 7)
        one, two = (dense_with(np.ones((7, 2)), seed=8) for _ in range(2))
        for _ in range(2):
            self.assertAllEqual(one(x, training=True), two(x, training=True))

    def test_without_xla_the_numbers_are_those_of_keras(self):
        ours = concrete_noise.uniform(
            (3, 5), "float32", keras.random.SeedGenerator(2)
        )
        theirs = keras.random.uniform(
            (3, 5), seed=keras.random.SeedGenerator(2)
        )
        self.assertAllEqual(ours, theirs)


class BadInputTest(TestCase):
    @parameterized.parameters(
        ({"num_train_examples": 0}, "num_train_examples"),
        ({"num_train_examples": None}, "num_train_examples"),
        ({"num_train_examples": 10.0}, "num_train_examples"),
        ({"length_scale": 0.0}, "length_scale"),
        ({"init_rate": 0.0}, "init_rate"),
        ({"init_rate": 1.0}, "init_rate"),
        ({"init_rate": True}, "init_rate"),
        ({"init_rate": "0.1"}, "init_rate"),
        ({"init_rate": float("nan")}, "init_rate"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"sampling": "hard"}, "sampling"),
        ({"likelihood": "mae"}, "likelihood"),
        ({"likelihood": "mse"}, "likelihood"),
        ({"likelihood": 1.0}, "likelihood"),
        ({"likelihood": None}, "likelihood"),
    )
    def test_arguments(self, arguments, name):
        with self.assertRaisesRegex(
            BayesdropError,
            f"Invalid value for argument `{name}`. Expected .*. "
            f"Received: {name}=",
        ):
            ConcreteDropout(
                layers.Dense(3), **{"num_train_examples": 10, **arguments}
            )

    @parameterized.parameters(
        layers.LSTM(3), layers.Conv2DTranspose(3, 2), layers.ReLU(), None, 3
    )
    def test_layers_it_does_not_know(self, layer):
        with self.assertRaisesRegex(
            BayesdropError,
            "Invalid value for argument `layer`. Expected .*Dense.*Received: ",
        ):
            ConcreteDropout(layer, 10)

    @parameterized.parameters("ab,cd->abcd", "ab,ac->ac")
    def test_equations_without_input_units(self, equation):
        with self.assertRaisesRegex(
            BayesdropError, "no input units.*Expected.*Received: equation="
        ):
            ConcreteDropout(layers.EinsumDense(equation, (2, 3)), 10)
