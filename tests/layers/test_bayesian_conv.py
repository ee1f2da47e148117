# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a structured prior, against their plain layers.

A convolution is linear in its kernel: see `test_variational_conv`, of which
the matrix from kernel to outputs is.
"""

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.layers import BayesianConv2D
from keras_bayesdrop.priors import structured_scales
from tests.helpers import TestCase
from tests.layers import bayesian
from tests.layers.test_bayesian_dense import draws
from tests.layers.test_variational_conv import jacobian

CALLS = 3000
SETTINGS = (
    ("plain", {}, (4, 3, 2)),
    ("same", {"padding": "same", "strides": 2}, (5, 4, 2)),
    ("dilated", {"dilation_rate": 2}, (4, 4, 2)),
)


def filled_layer(shape, filters=3, **kwargs):
    layer = BayesianConv2D(filters, 2, 50, use_bias=False, **kwargs)
    layer.build((None, *shape))
    return bayesian.fill(layer)


class NoiseTest(TestCase):
    @parameterized.product(setting=SETTINGS, estimator=("flipout", "local"))
    def test_moments_of_training(self, setting, estimator):
        _, settings, shape = setting
        layer = filled_layer(shape, estimator=estimator, **settings)
        x = bayesian.inputs(shape)
        matrix = jacobian(layer, x)
        theta, sigma2 = bayesian.posterior(layer)
        mean = matrix @ theta.reshape(-1)
        covariance = (matrix * sigma2.reshape(-1)) @ matrix.T
        if estimator == "local":
            # Outputs at different positions are drawn apart.
            covariance = np.diag(np.diag(covariance))
        y = draws(layer, x[None], CALLS).reshape(CALLS, -1)
        variance = np.diag(covariance)
        # 5 standard errors of means, and of covariances of Gaussians.
        error = np.abs(y.mean(0) - mean)
        allowed = 5 * np.sqrt(variance / CALLS) + 1e-5
        self.assertTrue(np.all(error < allowed), msg=error / allowed)
        centred = y - mean
        error = np.abs(centred.T @ centred / CALLS - covariance)
        allowed = np.outer(variance, variance) + covariance**2
        allowed = 5 * np.sqrt(allowed / CALLS) + 1e-5
        self.assertTrue(np.all(error < allowed), msg=error / allowed)

    def test_channels_first(self):
        # The format of GPUs, which only XLA has on a CPU. With one seed the
        # draws are those of the other format, and so are all signs.
        x = bayesian.inputs((2, 5, 4, 2))

        def outputs(data_format, x):
            layer = filled_layer((5, 4, 2), data_format="channels_last", seed=5)
            if data_format == "channels_first":
                layer = filled_layer((2, 5, 4), data_format=data_format, seed=5)
            run = tf.function(
                lambda x: layer(x, training=True), jit_compile=True
            )
            return np.array(run(x))

        last = outputs("channels_last", x)
        first = outputs("channels_first", np.moveaxis(x, -1, 1))
        self.assertAllClose(
            np.moveaxis(first, 1, -1), last, rtol=1e-4, atol=1e-5
        )


class ScalesTest(TestCase):
    def test_a_row_is_an_input_channel(self):
        layer = filled_layer((5, 4, 2), structure="ard_add", sigma0=0.5)
        theta, sigma2 = bayesian.posterior(layer)
        moments = (theta**2 + sigma2) / 0.25  # [2, 2, channels, filters]
        by_channel = np.stack([moments[:, :, c].reshape(-1) for c in range(2)])
        best = structured_scales(
            "ard_add", by_channel, "inverse_gamma", "inverse_gamma"
        )
        learned = layer.learned_scales()
        self.assertEqual(learned.rows.shape, (2,))
        self.assertAllClose(learned.rows, best.rows, rtol=1e-6)
        self.assertAllClose(learned.matrix, best.matrix, rtol=1e-6)
        std = 0.5 * learned.rows[:, None] * learned.matrix  # [channels, 1]
        ratio = sigma2 / std**2
        kl = 0.5 * np.sum(theta**2 / std**2 + ratio - 1 - np.log(ratio))
        self.assertAllClose(layer.kl_divergence(), kl, rtol=1e-5)

    def test_groups_have_channels_of_their_own(self):
        layer = filled_layer(
            (5, 4, 6), filters=4, groups=2, scale_prior="log_uniform"
        )
        self.assertEqual(layer.kernel.shape, (2, 2, 3, 4))
        theta, sigma2 = bayesian.posterior(layer)
        moments = theta**2 + sigma2
        # Channels 0 to 2 go to filters 0 and 1, channels 3 to 5 to the rest.
        expected = [
            moments[:, :, channel % 3, 2 * (channel // 3) :][..., :2].sum()
            for channel in range(6)
        ]
        # tau^2 = M / (n + 2) with n = 2 * 2 * 2 weights.
        self.assertAllClose(
            layer.learned_scales().rows, np.sqrt(np.array(expected) / 10)
        )
