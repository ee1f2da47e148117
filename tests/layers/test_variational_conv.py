# SPDX-License-Identifier: Apache-2.0
"""Convolutions with Gaussian weights, against their plain layers.

A convolution is linear in its kernel. So the plain layer, called with each
kernel that is one in a single place, gives the matrix `J` from kernel to
outputs, and with it the exact mean `J theta` and variance `J^2 sigma^2`,
whatever the strides, padding, dilation or groups.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.layers import VariationalConv1D
from keras_bayesdrop.layers import VariationalConv2D
from tests.helpers import TestCase

pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")

ROWS = 4000
SETTINGS = (
    ("plain", VariationalConv2D, {}, (4, 3, 2)),
    ("same", VariationalConv2D, {"padding": "same", "strides": 2}, (5, 4, 2)),
    ("dilated", VariationalConv2D, {"dilation_rate": 2}, (4, 4, 2)),
    ("causal", VariationalConv1D, {"padding": "causal"}, (4, 2)),
    (
        "causal_dilated",
        VariationalConv1D,
        {"padding": "causal", "dilation_rate": 2},
        (5, 2),
    ),
    ("strided", VariationalConv1D, {"strides": 2}, (5, 2)),
)
NOISES = (
    ("additive", "weight"),
    ("multiplicative", "row"),
    ("correlated", "row"),
)


def noisy_layer(cls, noise, settings, shape):
    rng = np.random.default_rng(2)
    layer = cls(
        3,
        2,
        50,
        parametrization=noise[0],
        prior="log_uniform",
        alpha=noise[1],
        use_bias=False,
        **settings,
    )
    layer.build((None, *shape))
    layer.kernel.assign(rng.normal(size=layer.kernel.shape))
    layer.log_noise.assign(rng.uniform(-2, 0, size=layer.log_noise.shape))
    return layer


def jacobian(layer, x):
    """Matrix [outputs, weights] for one input."""
    plain = layer.plain_layer()
    plain.build((None, *x.shape))
    size = int(np.prod(plain.kernel.shape))
    columns = []
    for place in range(size):
        kernel = np.zeros(size)
        kernel[place] = 1.0
        plain.kernel.assign(kernel.reshape(plain.kernel.shape))
        columns.append(np.array(plain(x[None]))[0])
    return np.stack(columns, -1).reshape(-1, size)


class ConvTest(TestCase):
    @parameterized.product(setting=SETTINGS, noise=NOISES)
    def test_moments_of_training(self, setting, noise):
        _, cls, settings, shape = setting
        layer = noisy_layer(cls, noise, settings, shape)
        x = np.random.default_rng(3).normal(size=shape).astype("float32")
        matrix = jacobian(layer, x)
        theta = np.array(layer.kernel, "float64")
        noise_of = np.broadcast_to(np.exp(layer.log_noise), theta.shape)
        mean = matrix @ theta.reshape(-1)
        if noise[0] == "correlated":
            # One factor for each input channel, at all positions.
            by_channel = (matrix * theta.reshape(-1)).reshape(
                len(matrix), -1, shape[-1], 3
            )
            spread = np.sqrt(np.exp(np.array(layer.log_noise)[:, 0]))
            factors = by_channel.sum((1, 3)) * spread  # [outputs, channels]
            variance = np.sum(factors**2, -1)
        else:
            scale = 1.0 if noise[0] == "additive" else theta**2
            variance = matrix**2 @ (noise_of * scale).reshape(-1)
        y = np.array(layer(np.tile(x, (ROWS, *[1] * x.ndim)), training=True))
        y = y.reshape(ROWS, -1).astype("float64")
        # 5 standard errors of means and of standard deviations.
        error = np.abs(y.mean(0) - mean)
        allowed = 5 * np.sqrt(variance / ROWS) + 1e-5
        self.assertTrue(np.all(error < allowed), msg=error / allowed)
        self.assertAllClose(
            y.std(0), np.sqrt(variance), rtol=5 / np.sqrt(2 * ROWS), atol=1e-5
        )

    def test_groups(self):
        # Convolutions in groups need XLA on a CPU: so does this test.
        layer = VariationalConv2D(
            4,
            2,
            50,
            prior="log_uniform",
            groups=2,
            noise_initializer="zeros",
            use_bias=False,
        )
        model = keras.Sequential([keras.Input((3, 3, 6)), layer])
        model.compile("sgd", "mse", jit_compile=True)
        self.assertEqual(layer.kernel.shape, (2, 2, 3, 4))
        x = np.zeros((64, 3, 3, 6), "float32")
        x[..., :3] = 1.0  # the first group only
        model.fit(x, np.zeros((64, 2, 2, 4)), verbose=0)
        moved = np.array(layer.log_noise) != 0
        kl_only = np.abs(np.array(layer.log_noise)[..., 2:]).max()
        self.assertTrue(np.all(moved))
        # Outputs 0 and 1 see the first group; the others feel the KL alone.
        likelihood = np.array(layer.log_noise)[..., :2]
        self.assertTrue(np.all(likelihood < -10 * kl_only))

    @parameterized.parameters("additive", "correlated")
    def test_channels_first(self, parametrization):
        x = np.random.default_rng(3).normal(size=(2, 5, 4, 2)).astype("f4")

        def outputs(data_format, x, training):
            layer = VariationalConv2D(
                3,
                2,
                50,
                prior="log_uniform",
                parametrization=parametrization,
                data_format=data_format,
                padding="same",
                noise_initializer=keras.initializers.Constant(-3.0),
                kernel_initializer=keras.initializers.RandomNormal(seed=1),
                bias_initializer=keras.initializers.RandomNormal(seed=2),
                seed=5,
            )
            # The format of GPUs, which only XLA has on a CPU.
            run = tf.function(
                lambda x: layer(x, training=training), jit_compile=True
            )
            return np.array(run(x))

        for training in (False, True):
            last = outputs("channels_last", x, training)
            first = outputs("channels_first", np.moveaxis(x, -1, 1), training)
            first = np.moveaxis(first, 1, -1)
            if training and parametrization == "additive":
                # The draws are in another order. Each differs from the mean
                # by at most 5.3 of its standard deviations, and these are
                # below sqrt(sum of 8 x^2 e^-3).
                allowed = 2 * 5.3 * np.sqrt(8 * np.exp(-3.0)) * np.abs(x).max()
                self.assertAllClose(first, last, atol=allowed)
                self.assertNotAllClose(first, last)
            else:
                self.assertAllClose(first, last, rtol=1e-4, atol=1e-5)

    def test_bias_and_activation_come_last(self):
        layer = VariationalConv1D(
            3,
            2,
            50,
            prior="log_uniform",
            activation="relu",
            bias_initializer="ones",
        )
        x = np.random.default_rng(3).normal(size=(2, 5, 4)).astype("f4")
        y = np.array(layer(x, training=True))
        self.assertTrue(np.all(y >= 0) and np.any(y == 0))
        layer.bias.assign([100.0, 0.0, -100.0])
        y = np.array(layer(x, training=True))
        self.assertTrue(np.all(y[..., 0] > 90) and np.all(y[..., 2] == 0))
