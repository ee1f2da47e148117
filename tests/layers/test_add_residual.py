# SPDX-License-Identifier: Apache-2.0
"""`ADDResidual`: the Keras contract, outputs, bad input."""

import keras
import numpy as np
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop import priors
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.losses import GaussianLikelihood
from tests.helpers import TestCase
from tests.layers.residual import Probe
from tests.layers.residual import drawn
from tests.layers.residual import learned
from tests.layers.residual import numbers

layers = keras.layers


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
