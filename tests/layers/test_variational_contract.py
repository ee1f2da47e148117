# SPDX-License-Identifier: Apache-2.0
"""All variational layers: the Keras contract."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.layers import VariationalConv1D
from keras_bayesdrop.layers import VariationalConv2D
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.layers import VariationalDropout
from keras_bayesdrop.layers._gaussian import weightwise_prior
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.priors import GaussianPrior
from keras_bayesdrop.priors import LogUniformPrior
from keras_bayesdrop.priors import StudentTPrior
from tests.helpers import TestCase
from tests.prediction.replicas import one_step

# Said once a process; `WarningTest` looks at it.
pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")

N = {"num_train_examples": 50, "prior": "log_uniform"}
DENSE = {"units": 4, **N}
CONV = {"filters": 4, "kernel_size": 2, **N}
MULTIPLICATIVE = {"parametrization": "multiplicative"}
CORRELATED = {"parametrization": "correlated"}

# Name, class, arguments, shapes of an input and its output.
LAYERS = (
    ("additive", VariationalDense, DENSE, (3, 7), (3, 4)),
    (
        "limited",
        VariationalDense,
        {**DENSE, "log_alpha_limit": 8.0, "train_threshold": 3.0},
        (3, 7),
        (3, 4),
    ),
    (
        "multiplicative",
        VariationalDense,
        {**DENSE, **MULTIPLICATIVE, "kl": "kingma"},
        (3, 7),
        (3, 4),
    ),
    (
        "rows",
        VariationalDense,
        {**DENSE, **MULTIPLICATIVE, "alpha": "row"},
        (3, 5, 7),
        (3, 5, 4),
    ),
    (
        "correlated",
        VariationalDense,
        {**DENSE, **CORRELATED, "prior": "gaussian"},
        (3, 7),
        (3, 4),
    ),
    (
        "gaussian",
        VariationalDense,
        {**DENSE, "prior": GaussianPrior(0.3), "use_bias": False},
        (3, 7),
        (3, 4),
    ),
    ("conv1d", VariationalConv1D, CONV, (3, 7, 2), (3, 6, 4)),
    (
        "conv1d_causal",
        VariationalConv1D,
        {**CONV, **CORRELATED, "alpha": "layer", "padding": "causal"},
        (3, 7, 2),
        (3, 7, 4),
    ),
    (
        "conv2d",
        VariationalConv2D,
        {**CONV, "activation": "relu", "strides": 2, "padding": "same"},
        (3, 6, 5, 2),
        (3, 3, 3, 4),
    ),
    (
        "conv2d_layer",
        VariationalConv2D,
        {**CONV, **MULTIPLICATIVE, "alpha": "layer", "kl": "molchanov"},
        (3, 6, 5, 2),
        (3, 5, 4, 4),
    ),
    ("dropout", VariationalDropout, N, (3, 7), (3, 7)),
    (
        "dropout_unit",
        VariationalDropout,
        {**N, "alpha": "unit", "prior": StudentTPrior(4.0)},
        (3, 5, 7),
        (3, 5, 7),
    ),
)
BY_NAME = {case[0]: case for case in LAYERS}


def inputs(shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def model_with(layer, shape):
    x = keras.Input(shape[1:])
    return keras.Model(x, layer(x))


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


class LossTest(TestCase):
    def test_the_kl_is_in_nats_per_example(self):
        layer = VariationalDense(4, 50, prior="gaussian")
        model = model_with(layer, (3, 7))
        kl = float(layer.kl_divergence())
        (loss,) = model.losses
        self.assertAllClose(float(loss), kl / 50, rtol=1e-6)
        layer.kl_weight.assign(0.25)
        (loss,) = model.losses
        self.assertAllClose(float(loss), 0.25 * kl / 50, rtol=1e-6)

    def test_the_kl_in_the_units_of_the_squared_error(self):
        layer = VariationalDropout(
            50,
            prior="log_uniform",
            likelihood=GaussianLikelihood(5.0, num_outputs=2),
        )
        layer.build((None, 7))
        # c / (N * D) = (2 / tau) / (N * D)
        expected = 2 / 5 / (50 * 2) * float(layer.kl_divergence())
        (loss,) = layer.losses
        self.assertAllClose(float(loss), expected, rtol=1e-6)

    @parameterized.parameters("additive", "multiplicative", "correlated")
    def test_loss_does_not_depend_on_the_batch_size(self, parametrization):
        model = model_with(
            VariationalDense(
                1, 50, prior="log_uniform", parametrization=parametrization
            ),
            (3, 7),
        )
        model.compile("sgd", "mse")
        x, y = inputs((12, 7)), np.ones((12, 1))
        losses = [
            model.evaluate(x, y, batch_size=size, verbose=0)
            for size in (1, 4, 12)
        ]
        data = np.mean((model.predict(x, verbose=0) - y) ** 2)
        expected = data + float(model.layers[-1].kl_divergence()) / 50
        self.assertAllClose(losses, [expected] * 3, rtol=1e-5)

    def test_replicas_count_it_once(self):
        alone, together = one_step(
            self,
            "kbd.layers.VariationalDense("
            "3, 4, parametrization='multiplicative'), "
            "kbd.layers.VariationalDropout(4), "
            "kbd.layers.VariationalDense(2, 4)",
        )
        self.assertAllClose(alone, together, rtol=1e-5)
        # The KL moves log sigma^2 of all 6 weights of the last layer.
        self.assertNotAllClose(alone[-1], 60.0)

    def test_a_layer_called_twice_counts_once(self):
        layer = VariationalDense(7, 50, prior="log_uniform")
        x = keras.Input((7,))
        model = keras.Model(x, layer(layer(x)))
        steps = keras.Sequential(
            [keras.Input((5, 7)), keras.layers.TimeDistributed(layer)]
        )
        for each in (model, steps):
            self.assertEqual(len(each.losses), 1)

    def test_gradients_of_the_kl_reach_every_parameter(self):
        for name in ("additive", "limited", "gaussian", "rows", "dropout"):
            _, cls, kwargs, shape, _ = BY_NAME[name]
            layer = cls(**kwargs)
            layer.build(shape)
            with tf.GradientTape() as tape:
                kl = layer.kl_divergence()
            slope = tape.gradient(kl, layer.log_noise.value)
            self.assertTrue(np.all(np.isfinite(slope)))
            self.assertTrue(np.all(np.asarray(slope) != 0))


class ArgumentTest(TestCase):
    @parameterized.product(
        layer=[
            BY_NAME[name]
            for name in ("additive", "conv1d", "conv2d", "dropout")
        ],
        bad=(
            {"num_train_examples": 0},
            {"num_train_examples": 1.5},
            {"prior": "cauchy"},
            {"prior": 3},
            {"kl": "Molchanov"},
            {"kl": 1},
            {"kl": "molchanov", "prior": "gaussian"},
            {"kl": "exact", "prior": LogUniformPrior(kl="kingma")},
            {"alpha": "column"},
            {"alpha": ["weight"]},
            {"log_alpha_limit": -1.0},
            {"log_alpha_limit": "8"},
            {"likelihood": "mae"},
            {"likelihood": "mse"},
            {"likelihood": 1.0},
            {"likelihood": None},
        ),
    )
    def test_wrong_arguments(self, layer, bad):
        _, cls, kwargs, _, _ = layer
        argument = next(iter(bad))
        with self.assertRaisesRegex(
            BayesdropError,
            f"Invalid value for argument `{argument}`. Expected .*Received: "
            f"{argument}=",
        ):
            cls(**{**kwargs, **bad})

    @parameterized.parameters(
        ({"parametrization": "subtractive"}, "parametrization"),
        ({"parametrization": None}, "parametrization"),
        ({"alpha": "row"}, "alpha"),
        ({"alpha": "layer"}, "alpha"),
        ({**CORRELATED, "alpha": "weight"}, "alpha"),
        ({**CORRELATED, "train_threshold": 3.0}, "train_threshold"),
    )
    def test_wrong_combinations(self, bad, argument):
        for cls, kwargs in (
            (VariationalDense, DENSE),
            (VariationalConv2D, CONV),
        ):
            with self.assertRaisesRegex(
                BayesdropError, f"argument `{argument}`. Expected .*Received"
            ):
                cls(**kwargs, **bad)

    def test_wrong_settings_of_one_layer(self):
        for bad in ("3", float("nan"), True):
            with self.assertRaisesRegex(BayesdropError, "`train_threshold`"):
                VariationalConv1D(**CONV, train_threshold=bad)
        with self.assertRaisesRegex(BayesdropError, "`groups`. Expected 1 "):
            VariationalConv2D(**CONV, **CORRELATED, groups=2)
        with self.assertRaisesRegex(BayesdropError, "`weights_per_unit`"):
            VariationalDropout(50, prior="log_uniform", weights_per_unit=0)
        with self.assertRaisesRegex(BayesdropError, "low-rank updates"):
            VariationalDense(**DENSE, lora_rank=2).build((None, 7))

    def test_priors_by_name_instance_and_config(self):
        config = keras.saving.serialize_keras_object(
            LogUniformPrior(kl="kingma")
        )
        for prior, kl, form in (
            ("log_uniform", None, "exact"),
            ("log_uniform", "molchanov", "molchanov"),
            (LogUniformPrior(kl="kingma"), None, "kingma"),
            (LogUniformPrior(kl="kingma"), "kingma", "kingma"),
            (config, None, "kingma"),
        ):
            layer = VariationalDense(4, 50, prior=prior, kl=kl)
            self.assertEqual(layer.prior, LogUniformPrior(kl=form))


class WarningTest(TestCase):
    def test_the_improper_prior_is_told_once_a_process(self):
        program = """
import warnings
from keras_bayesdrop import layers
from keras_bayesdrop.errors import BayesdropWarning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    layers.VariationalDense(4, 50)
    layers.VariationalConv1D(4, 3, 50)
    layers.VariationalConv2D(4, 3, 50)
    layers.VariationalDropout(50)
    print(len(caught))
    layers.VariationalDropout(50, prior="log_uniform")
    print(len(caught), caught[0].category is BayesdropWarning)
    print(caught[0].filename, caught[0].message)
    for kl in ("exact", "molchanov"):
        layers.VariationalDense(4, 50, prior="log_uniform", kl=kl)
        layers.VariationalConv2D(4, 3, 50, prior="log_uniform", kl=kl)
    print(len(caught))
"""
        lines = self.run_in_new_process(program).splitlines()
        self.assertEqual(lines[0], "0")
        self.assertEqual(lines[1], "1 True")
        self.assertEqual(lines[3], "1")
        self.assertRegex(
            lines[2], "^<string> The log-uniform prior is improper"
        )
        self.assertRegex(lines[2], "penalised maximum likelihood.*'gaussian'")

    @parameterized.parameters(
        (VariationalDense, DENSE),
        (VariationalConv1D, CONV),
        (VariationalDropout, N),
    )
    def test_the_warning_points_at_the_caller(self, cls, kwargs):
        told = set(weightwise_prior._shown)
        weightwise_prior._shown.clear()
        try:
            with pytest.warns(BayesdropWarning, match="improper") as caught:
                cls(**kwargs)
        finally:
            weightwise_prior._shown.update(told)
        self.assertEqual(caught[0].filename, __file__)
