# SPDX-License-Identifier: Apache-2.0
"""Layers with a structured prior: the Keras contract, and the loss."""

import os

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import BayesianConv2D
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from tests.helpers import TestCase
from tests.layers.bayesian import fill
from tests.layers.bayesian import inputs
from tests.layers.bayesian import model_with

N = {"num_train_examples": 50}
DENSE = {"units": 4, **N}
CONV = {"filters": 4, "kernel_size": 2, **N}
PAIR = {
    "structure": "ard-add",
    "scale_prior": (InverseGammaScale(2.0, 0.5), HalfCauchyScale(0.3)),
}
HELD = {"scales": "variable"}

# Name, class, arguments, shapes of an input and its output, number of
# variables with scales.
LAYERS = (
    ("default", BayesianDense, DENSE, (3, 7), (3, 4), 0),
    (
        "local",
        BayesianDense,
        {**DENSE, "estimator": "local", "scale_prior": "half_cauchy"},
        (3, 5, 7),
        (3, 5, 4),
        0,
    ),
    (
        "pair",
        BayesianDense,
        {**DENSE, **PAIR, **HELD, "use_bias": False},
        (3, 5, 7),
        (3, 5, 4),
        2,
    ),
    (
        "plain",
        BayesianDense,
        {**DENSE, "structure": None, "sigma0": 0.3},
        (3, 7),
        (3, 4),
        0,
    ),
    (
        "conv",
        BayesianConv2D,
        {**CONV, **HELD, "activation": "relu", "strides": 2},
        (3, 6, 5, 2),
        (3, 3, 2, 4),
        1,
    ),
    (
        "conv_local",
        BayesianConv2D,
        {**CONV, "structure": "add", "estimator": "local", "padding": "same"},
        (3, 6, 5, 2),
        (3, 6, 5, 4),
        0,
    ),
)
BY_NAME = {case[0]: case for case in LAYERS}


class ContractTest(TestCase):
    @parameterized.named_parameters(*LAYERS)
    def test_keras_contract(self, cls, kwargs, shape, output_shape, scales):
        self.run_layer_test(
            cls,
            init_kwargs={**kwargs, "seed": 11},
            input_shape=shape,
            expected_output_shape=output_shape,
            expected_output_dtype="float32",
            expected_num_trainable_weights=2 + kwargs.get("use_bias", True),
            expected_num_non_trainable_weights=1 + scales,
            expected_num_seed_generators=1,
            expected_num_losses=1,
            supports_masking=cls is BayesianDense,
        )

    @parameterized.named_parameters(*LAYERS)
    def test_without_training_it_is_the_plain_layer(
        self, cls, kwargs, shape, output_shape, scales
    ):
        x, layer = inputs(shape), cls(**kwargs)
        outputs = layer(x)
        for flag in (None, False):
            self.assertAllEqual(layer(x, training=flag), outputs)
        plain = layer.plain_layer()
        self.assertEqual(plain.name, layer.name)
        plain.build(shape)
        plain.kernel.assign(layer.mean_kernel())
        self.assertAllClose(plain(x), outputs, rtol=1e-6, atol=1e-6)
        self.assertNotIn("bayesdrop", repr(plain.get_config()))

    @parameterized.named_parameters(*LAYERS)
    def test_clones_and_seeds(self, cls, kwargs, shape, output_shape, scales):
        model = model_with(cls(**{**kwargs, "seed": 3}), shape)
        layer = model.layers[-1]
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        copy = clone.layers[-1]
        self.assertEqual(copy.get_config(), layer.get_config())
        self.assertEqual(copy.row_prior, layer.row_prior)
        self.assertEqual(copy.matrix_prior, layer.matrix_prior)
        x = inputs(shape)
        first, second = (model(x, training=True) for _ in range(2))
        self.assertAllEqual(clone(x, training=True), first)
        self.assertAllEqual(clone(x, training=True), second)
        self.assertNotAllClose(first, second)
        self.assertAllClose(clone.losses, model.losses, rtol=1e-6)

    @parameterized.named_parameters(*LAYERS)
    def test_any_batch_size_in_one_graph(
        self, cls, kwargs, shape, output_shape, scales
    ):
        layer = cls(**kwargs)
        signature = tf.TensorSpec((None, *shape[1:]), tf.float32)
        graph = tf.function(
            lambda x: layer(x, training=True), input_signature=[signature]
        )
        for rows in (1, 13):
            y = graph(np.ones((rows, *shape[1:]), "float32"))
            self.assertEqual(y.shape, (rows, *output_shape[1:]))

    @parameterized.product(
        layer=LAYERS, policy=("mixed_float16", "mixed_bfloat16", "float64")
    )
    def test_dtypes(self, layer, policy):
        _, cls, kwargs, shape, _, _ = layer
        layer = cls(**kwargs, dtype=policy)
        loaded = cls.from_config(layer.get_config())
        self.assertEqual(loaded.dtype_policy.name, policy)
        expected = policy.removeprefix("mixed_")
        for training in (False, True):
            y = layer(inputs(shape), training=training)
            self.assertEqual(y.dtype.name, expected)
            self.assertTrue(np.all(np.isfinite(y)))
        wide = "float64" if policy == "float64" else "float32"
        self.assertEqual(layer.kl_divergence().dtype.name, wide)
        if layer.scales_in_variables:
            layer.update_scales()
        for part in layer.learned_scales():
            if part is not None:
                self.assertEqual(part.dtype.name, wide)
                self.assertTrue(np.all(part > 0))

    def test_fits_under_xla_and_learns_its_noise(self):
        model = keras.Sequential(
            [
                keras.Input((4, 4, 2)),
                # Convolutions in groups need XLA on a CPU.
                BayesianConv2D(**CONV, **HELD, groups=2),
                keras.layers.Flatten(),
                BayesianDense(3, **N, **PAIR, estimator="local"),
                BayesianDense(1, **N, scale_prior="half_cauchy"),
            ]
        )
        before = [np.array(each) for each in model.trainable_variables]
        model.compile("adam", "mse", jit_compile=True)
        history = model.fit(
            inputs((6, 4, 4, 2)), np.ones((6, 1)), batch_size=3, verbose=0
        )
        self.assertTrue(np.isfinite(history.history["loss"][0]))
        for then, now in zip(before, model.trainable_variables, strict=True):
            self.assertFalse(np.any(then == np.array(now)), msg=now.path)

    def test_masks_pass(self):
        x = keras.Input((5,), dtype="int32")
        h = keras.layers.Embedding(9, 3, mask_zero=True)(x)
        h = BayesianDense(**DENSE)(h)
        self.assertIsNotNone(h._keras_mask)

    def test_a_saved_model_in_a_new_process(self):
        model = keras.Sequential(
            [
                keras.Input((6, 5, 2)),
                BayesianConv2D(3, 2, **N, **HELD),
                keras.layers.Flatten(),
                BayesianDense(6, **N, **PAIR, **HELD),
                BayesianDense(2, **N, structure="add", estimator="local"),
            ]
        )
        for layer in (model.layers[0], *model.layers[2:]):
            fill(layer)
        for layer in (model.layers[0], model.layers[2]):
            layer.update_scales()
        model.layers[0].kl_weight.assign(0.25)
        folder = self.get_temp_dir()
        path = os.path.join(folder, "model.keras")
        model.save(path)
        program = """
import sys
import keras
import numpy as np
import keras_bayesdrop as kbd
model = keras.models.load_model(sys.argv[1])
x = np.ones((3, 6, 5, 2), "float32")
result = kbd.predict_with_uncertainty(model, x, 5, seed=2, verbose=0)
np.savez(sys.argv[2], mean=result.mean, std=result.std, y=model(x),
         losses=[float(v) for v in model.losses],
         rows=model.layers[0].learned_scales().rows,
         matrix=model.layers[2].learned_scales().matrix)
"""
        results = os.path.join(folder, "results.npz")
        self.run_in_new_process(program, path, results)
        x = np.ones((3, 6, 5, 2), "float32")
        here = kbd.predict_with_uncertainty(
            model, x, num_samples=5, seed=2, verbose=0
        )
        there = np.load(results)
        self.assertAllClose(there["y"], model(x), rtol=1e-5)
        self.assertAllClose(there["mean"], here.mean, rtol=1e-5)
        self.assertAllClose(there["std"], here.std, rtol=1e-4)
        self.assertAllClose(
            there["losses"], [float(each) for each in model.losses], rtol=1e-5
        )
        self.assertAllEqual(there["rows"], model.layers[0].row_scales)
        self.assertAllEqual(there["matrix"], model.layers[2].matrix_scale)
        self.assertTrue(np.all(there["rows"] != 1.0))


class LossTest(TestCase):
    def test_weight_and_units(self):
        layer = BayesianDense(
            4,
            50,
            structure=None,
            likelihood=GaussianLikelihood(5.0, num_outputs=2),
        )
        layer.build((None, 7))
        # c / (N * D) = (2 / tau) / (N * D)
        expected = 2 / 5 / (50 * 2) * float(layer.kl_divergence())
        (loss,) = layer.losses
        self.assertAllClose(float(loss), expected, rtol=1e-6)
        layer.kl_weight.assign(0.25)
        (loss,) = layer.losses
        self.assertAllClose(float(loss), 0.25 * expected, rtol=1e-6)

    def test_loss_does_not_depend_on_the_batch_size(self):
        layer = BayesianDense(1, 50, **PAIR)
        model = model_with(layer, (3, 7))
        model.compile("sgd", "mse", jit_compile=False)
        x, y = inputs((12, 7)), np.ones((12, 1))
        losses = [
            model.evaluate(x, y, batch_size=size, verbose=0)
            for size in (1, 4, 12)
        ]
        data = np.mean((model.predict(x, verbose=0) - y) ** 2)
        expected = data + float(layer.penalty_nats()) / 50
        self.assertAllClose(losses, [expected] * 3, rtol=1e-5)

    def test_a_layer_called_twice_counts_once(self):
        layer = BayesianDense(7, 50)
        x = keras.Input((7,))
        self.assertEqual(len(keras.Model(x, layer(layer(x))).losses), 1)


class ArgumentTest(TestCase):
    @parameterized.product(
        layer=(BY_NAME["default"], BY_NAME["conv"]),
        bad=(
            {"num_train_examples": 0},
            {"structure": "ARD"},
            {"structure": 1},
            {"structure": ["ard"]},
            {"scale_prior": "cauchy"},
            {"scale_prior": 3.0},
            {"scale_prior": "gaussian", "structure": "ard_add"},
            {"scale_prior": ("half_cauchy", "half_cauchy")},
            {"scale_prior": ("half_cauchy",), "structure": "ard_add"},
            {
                "scale_prior": "half_cauchy",
                "structure": None,
                "scales": "inline",
            },
            {"sigma0": 0.0},
            {"estimator": "Flipout"},
            {"scales": "epoch"},
            {"scales": "variable", "structure": None},
            {"likelihood": "mae"},
            {"likelihood": 0},
        ),
    )
    def test_wrong_arguments(self, layer, bad):
        _, cls, kwargs, _, _, _ = layer
        argument = next(iter(bad))
        with self.assertRaisesRegex(
            BayesdropError,
            f"Invalid value for argument `{argument}`. Expected .*Received: "
            f"{argument}=",
        ):
            cls(**{**kwargs, **bad})

    def test_scales_without_a_joint_optimum(self):
        pattern = "no joint optimum.*Expected.*Received"
        with self.assertRaisesRegex(BayesdropError, pattern):
            BayesianDense(4, 50, structure="ard_add", scale_prior="log_uniform")
        # Here it depends on the number of rows: 2 * rows < 2 * a + 2.
        for rows in (3, 4):
            layer = BayesianDense(
                4,
                50,
                structure="ard_add",
                scale_prior=("log_uniform", "inverse_gamma"),
            )
            if rows == 3:
                layer.build((None, rows))
                continue
            with self.assertRaisesRegex(BayesdropError, pattern):
                layer.build((None, rows))

    def test_updating_what_is_not_held(self):
        for arguments in ({}, {"structure": None}):
            layer = BayesianDense(4, 50, **arguments)
            layer.build((None, 7))
            with self.assertRaisesRegex(
                BayesdropError, "no scales to update.*Expected.*Received"
            ):
                layer.update_scales()

    def test_low_rank_updates(self):
        with self.assertRaisesRegex(BayesdropError, "low-rank updates"):
            BayesianDense(**DENSE, lora_rank=2).build((None, 7))
