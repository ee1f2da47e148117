# SPDX-License-Identifier: Apache-2.0
"""Predictions with uncertainty of models with variational layers."""

import keras
import numpy as np
import pytest
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.layers import VariationalConv1D
from keras_bayesdrop.layers import VariationalConv2D
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.layers import VariationalDropout
from tests.helpers import TestCase
from tests.helpers import flat
from tests.layers.test_variational_dense import IN
from tests.layers.test_variational_dense import OUT
from tests.layers.test_variational_dense import assert_moments
from tests.layers.test_variational_dense import covariance
from tests.layers.test_variational_dense import noisy_layer

pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")

MASKS = ("shared", "independent")
CASES = (("additive", None), ("multiplicative", "row"), ("correlated", "row"))
NOISE = keras.initializers.Constant(-2.0)


def samples(model, x, num_samples, **kwargs):
    """Samples [num_samples, rows, ...]."""
    arguments = {"seed": 1, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, return_samples=True, **flat(**arguments)
    ).samples


def network():
    """Every kind of layer, one after the other."""
    return keras.Sequential(
        [
            keras.Input((6, 5, 2)),
            VariationalConv2D(3, 2, 50, prior="log_uniform", activation="tanh"),
            keras.layers.Reshape((5, 12)),
            VariationalConv1D(
                4, 2, 50, prior="log_uniform", parametrization="correlated"
            ),
            VariationalDense(
                3, 50, prior="log_uniform", parametrization="multiplicative"
            ),  # on all positions
            VariationalDropout(50, prior="log_uniform", alpha="unit"),
            keras.layers.Flatten(),
            VariationalDense(
                6, 50, prior="log_uniform", noise_initializer=NOISE
            ),
            VariationalDense(
                2, 50, prior="log_uniform", parametrization="correlated"
            ),
        ]
    )


class LinearTest(TestCase):
    @parameterized.product(case=CASES, masks=MASKS)
    def test_moments_against_theory(self, case, masks):
        model = keras.Sequential([keras.Input((IN,)), noisy_layer(*case)])
        x = np.array([[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 0.2, -2.0]], "float32")
        draws = samples(model, x, 4000, masks=masks)
        mean = np.array(model(x))
        for row in range(2):
            cov = covariance(model.layers[0], x[row].astype("float64"))
            assert_moments(self, draws[:, row], mean[row], cov)
        # Rows share their weights, or do not.
        centred = draws - mean
        both = np.mean(centred[:, 0] * centred[:, 1], axis=0)
        spreads = draws[:, 0].std(0) * draws[:, 1].std(0)
        correlation = np.abs(both / spreads)
        if masks == "independent":
            self.assertTrue(np.all(correlation < 4 / np.sqrt(4000)))
        else:
            self.assertTrue(np.any(correlation > 0.2))

    @parameterized.parameters(*CASES)
    def test_a_sample_is_one_linear_function(self, *case):
        layer = noisy_layer(*case, use_bias=False)
        model = keras.Sequential([keras.Input((IN,)), layer])
        rng = np.random.default_rng(0)
        one, other = rng.normal(size=(2, 3, IN)).astype("float32")
        x = np.concatenate([one, other, one + 2 * other])
        draws = samples(model, x, 10)
        self.assertAllClose(
            draws[:, :3] + 2 * draws[:, 3:6],
            draws[:, 6:],
            rtol=1e-4,
            atol=1e-5,
        )
        self.assertNotAllClose(draws[0], draws[1])


class NetworkTest(TestCase):
    @parameterized.parameters(*MASKS)
    def test_samples_do_not_depend_on_batches(self, masks):
        x = np.random.default_rng(0).normal(size=(5, 6, 5, 2)).astype("float32")
        model = network()
        whole = samples(model, x, 6, masks=masks)
        parts = samples(model, x, 6, masks=masks, batch_size=2)
        self.assertAllClose(whole, parts, rtol=1e-4, atol=1e-5)
        other = samples(model, x, 6, masks=masks, seed=2)
        self.assertNotAllClose(whole, other)
        self.assertTrue(np.all(whole.std(0) > 0))

    def test_views(self):
        x = np.random.default_rng(0).normal(size=(3, 6, 5, 2)).astype("float32")
        model = network()
        draws = samples(model, x, 4)
        function = kbd.sample_function(model, seed=1, sample=3)
        self.assertAllClose(function(x), draws[3], rtol=1e-4, atol=1e-5)
        mean = kbd.deterministic(model)
        self.assertAllClose(mean(x), model(x), rtol=1e-5, atol=1e-6)
        table = str(kbd.inspect(model))
        self.assertEqual(table.count("Gaussian weights, "), 5)

    def test_training_goes_on_between_predictions(self):
        model = keras.Sequential([keras.Input((IN,)), noisy_layer("additive")])
        x = np.ones((1, IN), "float32")
        before = samples(model, x, 50).std(0)
        noise = model.layers[0].log_noise
        noise.assign(noise - 2 * np.log(3.0))
        self.assertAllClose(samples(model, x, 50).std(0), before / 3, rtol=1e-4)

    @parameterized.parameters(*MASKS)
    def test_time_distributed(self, masks):
        layer = noisy_layer("additive", use_bias=False)
        model = keras.Sequential(
            [keras.Input((3, IN)), keras.layers.TimeDistributed(layer)]
        )
        x = np.random.default_rng(0).normal(size=(4, 3, IN)).astype("float32")
        draws = samples(model, x, 600, masks=masks, batch_size=4)
        cov = covariance(layer, x[1, 2].astype("float64"))
        mean = x[1, 2] @ np.array(layer.kernel)
        assert_moments(self, draws[:, 1, 2], mean, cov)

    def test_rows_of_a_convolution_have_weights_of_their_own(self):
        layer = VariationalConv1D(
            OUT,
            2,
            50,
            prior="log_uniform",
            noise_initializer=NOISE,
            use_bias=False,
        )
        model = keras.Sequential([keras.Input((4, 2)), layer])
        x = np.ones((3, 4, 2), "float32")
        draws = samples(model, x, 1500, masks="independent")
        # In a row all positions see the same inputs and the same weights.
        self.assertAllClose(draws[:, :, 0], draws[:, :, 2], atol=1e-5)
        # Four weights of variance e^-2 each; 5 standard errors.
        expected = np.sqrt(4 * np.exp(-2.0))
        self.assertAllClose(
            draws[:, :, 0].std(0),
            np.full((3, OUT), expected),
            rtol=5 / np.sqrt(2 * 1500),
        )
        rows = np.corrcoef(draws[:, :, 0, 0].T)
        self.assertTrue(np.all(np.abs(rows[np.triu_indices(3, 1)]) < 0.11))
