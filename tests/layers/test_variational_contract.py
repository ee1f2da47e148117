# SPDX-License-Identifier: Apache-2.0
"""All variational layers: the Keras contract."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.layers import VariationalConv1D
from keras_bayesdrop.layers import VariationalConv2D
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.layers import VariationalDropout
from keras_bayesdrop.priors import GaussianPrior
from keras_bayesdrop.priors import StudentTPrior
from tests.helpers import TestCase
from tests.layers.variational import BY_NAME
from tests.layers.variational import CORRELATED
from tests.layers.variational import LAYERS
from tests.layers.variational import MULTIPLICATIVE
from tests.layers.variational import N
from tests.layers.variational import inputs
from tests.layers.variational import model_with

# Said once a process; `WarningTest` looks at it.
pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")


class ContractTest(TestCase):
    @parameterized.named_parameters(*LAYERS)
    def test_keras_contract(self, cls, kwargs, shape, output_shape):
        dropout = cls is VariationalDropout
        bias = kwargs.get("use_bias", True)
        self.run_layer_test(
            cls,
            init_kwargs={**kwargs, "seed": 11},
            input_shape=shape,
            expected_output_shape=output_shape,
            expected_output_dtype="float32",
            expected_num_trainable_weights=1 if dropout else 2 + bias,
            expected_num_non_trainable_weights=1,
            expected_num_seed_generators=1,
            expected_num_losses=1,
            supports_masking=dropout or cls is VariationalDense,
        )

    @parameterized.named_parameters(*LAYERS)
    def test_without_training_it_is_the_plain_layer(
        self, cls, kwargs, shape, output_shape
    ):
        x, layer = inputs(shape), cls(**kwargs)
        outputs = layer(x)
        for flag in (None, False):
            self.assertAllEqual(layer(x, training=flag), outputs)
        if cls is VariationalDropout:
            self.assertAllEqual(outputs, x)
            self.assertEqual(layer.plain_layers(), [])
            return
        plain = layer.plain_layer()
        self.assertIs(type(plain), cls.__mro__[cls.__mro__.index(type(plain))])
        self.assertEqual(plain.name, layer.name)
        plain.build(shape)
        plain.kernel.assign(layer.mean_kernel())
        self.assertAllClose(plain(x), outputs, rtol=1e-6, atol=1e-6)
        self.assertNotIn("bayesdrop", repr(plain.get_config()))

    @parameterized.named_parameters(*LAYERS)
    def test_training_draws_anew_and_by_seed(
        self, cls, kwargs, shape, output_shape
    ):
        x = inputs(shape)
        layers = [cls(**{**kwargs, "seed": seed}) for seed in (5, 5, 6)]
        for layer in layers:
            layer.build(shape)
        for layer in layers[1:]:
            for mine, first in zip(
                layer.trainable_variables,
                layers[0].trainable_variables,
                strict=True,
            ):
                mine.assign(first)
        first = [layer(x, training=True) for layer in layers]
        second = [layer(x, training=True) for layer in layers]
        self.assertAllEqual(first[0], first[1])
        self.assertAllEqual(second[0], second[1])
        self.assertNotAllClose(first[0], second[0])
        self.assertNotAllClose(first[0], first[2])

    @parameterized.named_parameters(
        BY_NAME["limited"],
        BY_NAME["rows"],
        BY_NAME["correlated"],
        BY_NAME["conv1d_causal"],
        BY_NAME["conv2d"],
        BY_NAME["dropout_unit"],
    )
    def test_fits_under_xla_and_learns_its_noise(
        self, cls, kwargs, shape, output_shape
    ):
        model = model_with(cls(**kwargs), shape)
        before = model.get_weights()
        model.compile("adam", "mse", jit_compile=True)
        history = model.fit(
            inputs(shape),
            np.ones(output_shape, "float32"),
            batch_size=2,
            epochs=2,
            verbose=0,
        )
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))
        trained = len(model.trainable_variables)
        for then, now in zip(
            before[:trained], model.get_weights()[:trained], strict=True
        ):
            self.assertFalse(np.any(then == now), msg=now)

    @parameterized.named_parameters(*LAYERS)
    def test_any_batch_size_in_one_graph(
        self, cls, kwargs, shape, output_shape
    ):
        layer = cls(**kwargs)
        signature = tf.TensorSpec((None, *shape[1:]), tf.float32)
        graph = tf.function(
            lambda x: layer(x, training=True), input_signature=[signature]
        )
        for rows in (1, 13):
            y = graph(np.ones((rows, *shape[1:]), "float32"))
            self.assertEqual(y.shape, (rows, *output_shape[1:]))

    @parameterized.named_parameters(*LAYERS)
    def test_clones_and_configs(self, cls, kwargs, shape, output_shape):
        model = model_with(cls(**{**kwargs, "seed": 3}), shape)
        layer = model.layers[-1]
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        copy = clone.layers[-1]
        self.assertEqual(copy.get_config(), layer.get_config())
        self.assertEqual(copy.prior, layer.prior)
        x = inputs(shape)
        self.assertAllEqual(clone(x, training=True), model(x, training=True))

    @parameterized.product(
        layer=LAYERS, policy=("mixed_float16", "mixed_bfloat16", "float64")
    )
    def test_dtypes(self, layer, policy):
        _, cls, kwargs, shape, _ = layer
        layer = cls(**kwargs, dtype=policy)
        loaded = cls.from_config(layer.get_config())
        self.assertEqual(loaded.dtype_policy.name, policy)
        expected = policy.removeprefix("mixed_")
        for training in (False, True):
            y = layer(inputs(shape), training=training)
            self.assertEqual(y.dtype.name, expected)
            self.assertTrue(np.all(np.isfinite(y)))
        wide = "float64" if policy == "float64" else "float32"
        self.assertEqual(layer.log_alpha().dtype.name, wide)
        self.assertEqual(layer.kl_divergence().dtype.name, wide)

    def test_a_saved_model_in_a_new_process(self):
        model = keras.Sequential(
            [
                keras.Input((6, 5, 2)),
                VariationalConv2D(3, 2, 50, prior=StudentTPrior(3.0)),
                keras.layers.Reshape((5, 12)),
                VariationalConv1D(4, 2, kl="molchanov", **N),
                VariationalDropout(alpha="unit", **N),
                keras.layers.Flatten(),
                VariationalDense(6, **MULTIPLICATIVE, **N),
                VariationalDense(2, 50, **CORRELATED, prior=GaussianPrior(0.5)),
            ]
        )
        rng = np.random.default_rng(1)
        model.layers[0].log_noise.assign(rng.normal(size=(2, 2, 2, 3)))
        model.layers[0].kl_weight.assign(0.25)
        folder = self.get_temp_dir()
        path = os.path.join(folder, "model.keras")
        model.save(path)
        program = """
import sys, warnings
import keras
import numpy as np
warnings.simplefilter("ignore")
import keras_bayesdrop as kbd
model = keras.models.load_model(sys.argv[1])
x = np.ones((3, 6, 5, 2), "float32")
result = kbd.predict_with_uncertainty(model, x, 5, seed=2, verbose=0)
np.savez(sys.argv[2], mean=result.mean, std=result.std, y=model(x),
         losses=[float(v) for v in model.losses])
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
