# SPDX-License-Identifier: Apache-2.0
"""All variational layers: the loss, arguments and warnings."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.layers import VariationalConv1D
from keras_bayesdrop.layers import VariationalConv2D
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.layers import VariationalDropout
from keras_bayesdrop.layers._gaussian import weightwise_prior
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.priors import LogUniformPrior
from tests.helpers import TestCase
from tests.layers.variational import BY_NAME
from tests.layers.variational import CONV
from tests.layers.variational import CORRELATED
from tests.layers.variational import DENSE
from tests.layers.variational import N
from tests.layers.variational import inputs
from tests.layers.variational import model_with
from tests.prediction.replicas import one_step

# Said once a process; `WarningTest` looks at it.
pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")


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
