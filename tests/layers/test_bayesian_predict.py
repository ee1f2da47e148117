# SPDX-License-Identifier: Apache-2.0
"""Predictions with uncertainty of models with structured priors."""

import keras
import numpy as np
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.layers import BayesianConv2D
from keras_bayesdrop.layers import BayesianDense
from tests.helpers import TestCase
from tests.layers import bayesian
from tests.layers.bayesian import IN
from tests.layers.test_variational_dense import assert_moments
from tests.layers.test_variational_predict import samples

MASKS = ("shared", "independent")


def network():
    """Every kind of layer, some in a model inside the model."""
    inner = keras.Sequential(
        [
            keras.Input((60,)),
            BayesianDense(6, 50, structure="ard_add", activation="tanh"),
            BayesianDense(4, 50, structure=None, estimator="local"),
        ],
        name="inner",
    )
    x = keras.Input((6, 5, 2))
    h = BayesianConv2D(3, 2, 50, structure="add", activation="tanh")(x)
    h = inner(keras.layers.Flatten()(h))
    return keras.Model(x, BayesianDense(2, 50, scales="variable")(h))


class PredictTest(TestCase):
    @parameterized.parameters(*MASKS)
    def test_moments_against_theory(self, masks):
        layer = bayesian.filled_layer()
        model = keras.Sequential([keras.Input((IN,)), layer])
        x = np.array([[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 0.2, -2.0]], "float32")
        draws = samples(model, x, 4000, masks=masks)
        theta, variance = bayesian.posterior(layer)
        for row in range(2):
            mean = x[row] @ theta + np.array(layer.bias)
            cov = np.diag(x[row].astype("float64") ** 2 @ variance)
            assert_moments(self, draws[:, row], mean, cov)

    def test_a_sample_is_one_linear_function(self):
        layer = bayesian.filled_layer(use_bias=False)
        model = keras.Sequential([keras.Input((IN,)), layer])
        one, other = bayesian.inputs((2, 3, IN))
        x = np.concatenate([one, other, one + 2 * other])
        draws = samples(model, x, 10)
        self.assertAllClose(
            draws[:, :3] + 2 * draws[:, 3:6], draws[:, 6:], rtol=1e-4, atol=1e-5
        )
        self.assertNotAllClose(draws[0], draws[1])

    @parameterized.parameters(*MASKS)
    def test_samples_do_not_depend_on_batches(self, masks):
        x = bayesian.inputs((5, 6, 5, 2))
        model = network()
        whole = samples(model, x, 6, masks=masks)
        parts = samples(model, x, 6, masks=masks, batch_size=2)
        self.assertAllClose(whole, parts, rtol=1e-4, atol=1e-5)
        other = samples(model, x, 6, masks=masks, seed=2)
        self.assertNotAllClose(whole, other)
        self.assertTrue(np.all(whole.std(0) > 0))

    def test_views(self):
        x = bayesian.inputs((3, 6, 5, 2))
        model = network()
        draws = samples(model, x, 4)
        function = kbd.sample_function(model, seed=1, sample=3)
        self.assertAllClose(function(x), draws[3], rtol=1e-4, atol=1e-5)
        mean = kbd.deterministic(model)
        self.assertAllClose(mean(x), model(x), rtol=1e-5, atol=1e-6)
        table = str(kbd.inspect(model))
        self.assertEqual(table.count("Gaussian weights, "), 4)

    def test_training_goes_on_between_predictions(self):
        model = keras.Sequential([keras.Input((IN,)), bayesian.filled_layer()])
        x = np.ones((1, IN), "float32")
        before = samples(model, x, 50).std(0)
        noise = model.layers[0].log_noise
        noise.assign(noise - 2 * np.log(3.0))
        self.assertAllClose(samples(model, x, 50).std(0), before / 3, rtol=1e-4)
