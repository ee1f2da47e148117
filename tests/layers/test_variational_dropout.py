# SPDX-License-Identifier: Apache-2.0
"""Gaussian dropout with a learned variance."""

import keras
import numpy as np
import pytest
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.layers import VariationalDropout
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.priors import LogUniformPrior
from tests.helpers import TestCase

pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")


class VariationalDropoutTest(TestCase):
    @parameterized.product(
        alpha=("layer", "unit"), policy=("float32", "mixed_bfloat16")
    )
    def test_moments_in_training(self, alpha, policy):
        layer = VariationalDropout(
            50, prior="log_uniform", alpha=alpha, dtype=policy
        )
        layer.build((None, 3))
        log_alpha = [-1.0, 0.5, -2.0] if alpha == "unit" else -1.0
        layer.log_noise.assign(log_alpha)
        x = np.array([1.0, -2.0, 4.0])
        y = layer(np.tile(x, (20_000, 1)), training=True)
        y = np.array(keras.ops.cast(y, "float32"), "float64")
        spread = np.abs(x) * np.exp(0.5 * np.array(log_alpha))
        # 5 standard errors, and the rounding of bfloat16, 2^-9 relative, which
        # is unbiased.
        error = np.abs(y.mean(0) - x)
        self.assertTrue(np.all(error < 5 * spread / np.sqrt(20_000)))
        self.assertAllClose(y.std(0), spread, rtol=5 / np.sqrt(40_000))
        correlation = np.corrcoef(y.T)[np.triu_indices(3, 1)]
        self.assertTrue(np.all(np.abs(correlation) < 5 / np.sqrt(20_000)))

    def test_predictions(self):
        layer = VariationalDropout(50, prior="log_uniform", alpha="unit")
        model = keras.Sequential([keras.Input((2, 3)), layer])
        layer.log_noise.assign([-1.0, 0.5, -2.0])
        x = np.ones((2, 2, 3), "float32")
        for masks in ("shared", "independent"):
            result = kbd.predict_with_uncertainty(
                model,
                x,
                2000,
                seed=1,
                verbose=0,
                method=kbd.Sampling(masks=masks),
            )
            spread = np.broadcast_to(np.exp([-0.5, 0.25, -1.0]), (2, 2, 3))
            # 5 standard errors.
            self.assertAllClose(result.std, spread, rtol=5 / np.sqrt(4000))
        self.assertAllEqual(kbd.deterministic(model)(x), x)

    @parameterized.parameters("layer", "unit")
    def test_kl_counts_units_and_weights(self, alpha):
        layer = VariationalDropout(
            50, prior="log_uniform", alpha=alpha, weights_per_unit=10
        )
        layer.build((None, 5, 3))
        one = float(LogUniformPrior().kl_of_log_alpha([-3.0])[0])
        self.assertAllClose(layer.kl_divergence(), 10 * 3 * one, rtol=1e-6)

    @parameterized.parameters("log_uniform", "gaussian")
    def test_it_is_correlated_weight_noise(self, prior):
        """`VariationalDense` with correlated noise is the same model."""
        dropout = VariationalDropout(50, alpha="unit", prior=prior, seed=4)
        dense = VariationalDense(
            2,
            50,
            parametrization="correlated",
            prior=prior,
            use_bias=False,
            seed=4,
        )
        x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
        dense.build((None, 3))
        dropout.build((None, 3))
        dense.log_noise.assign([[-1.0], [0.5], [-2.0]])
        dropout.log_noise.assign([-1.0, 0.5, -2.0])
        noisy = np.array(dropout(x, training=True))
        self.assertAllClose(
            noisy @ np.array(dense.kernel), dense(x, training=True), rtol=1e-5
        )
        self.assertAllClose(
            dense.kl_divergence(), dropout.kl_divergence(), rtol=1e-6
        )

    def test_noise_is_learned_from_data_and_prior(self):
        # The output is the first unit. What the data leave alone, the second,
        # the prior makes noise; the first keeps little of it.
        x = np.random.default_rng(0).normal(size=(64, 2)).astype("float32")
        layer = VariationalDropout(
            64,
            prior="log_uniform",
            alpha="unit",
            likelihood=GaussianLikelihood(100.0),
        )
        dense = keras.layers.Dense(1, use_bias=False, trainable=False)
        model = keras.Sequential([keras.Input((2,)), layer, dense])
        model.compile(keras.optimizers.Adam(0.05), "mse")
        dense.kernel.assign([[1.0], [0.0]])
        model.fit(x, x[:, :1], batch_size=32, epochs=40, verbose=0)
        # Adam moves by 0.05 in each of 80 steps at most: -3 - 4 and -3 + 4.
        needed, idle = np.array(layer.log_alpha())
        self.assertLess(needed, -5.0)
        self.assertGreater(idle, 0.0)

    def test_masks_pass_through(self):
        x = np.array([[[1.0, 2.0], [0.0, 0.0]]], "float32")
        model = keras.Sequential(
            [
                keras.layers.Masking(),
                VariationalDropout(50, prior="log_uniform"),
            ]
        )
        self.assertAllEqual(model(x)._keras_mask, [[True, False]])
