# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import MCDropout
from tests.helpers import TestCase


class MCDropoutTest(TestCase):
    def test_kept_units_are_rescaled(self):
        y = keras.ops.convert_to_numpy(
            MCDropout(0.2, seed=7)(np.ones((101, 503), "float32"))
        )
        self.assertAllEqual(np.unique(y), np.float32([0.0, 1.25]))
        # 50_803 draws of standard deviation 0.5: 4 standard errors of the
        # mean are 4 * 0.5 / sqrt(50_803) = 0.0089.
        self.assertAllClose(y.mean(), 1.0, atol=0.009, rtol=0)

    def test_gaussian_noise_has_the_moments_of_dropout(self):
        y = keras.ops.convert_to_numpy(
            MCDropout(0.2, noise="gaussian", seed=7)(
                np.full((101, 503), 2.0, "float32")
            )
        )
        noise = y.astype("float64") / 2.0
        # n = 50_803 draws from N(1, v = 0.25). 4 standard errors: of the mean
        # 4 * sqrt(v / n) = 0.0089, of the variance 4 * v * sqrt(2 / n) =
        # 0.0063, of the third moment about the mean 4 * sqrt(15 * v^3 / n) =
        # 0.0086.
        self.assertAllClose(noise.mean(), 1.0, atol=0.009, rtol=0)
        self.assertAllClose(noise.var(), 0.25, atol=0.0063, rtol=0)
        self.assertAllClose(
            ((noise - 1.0) ** 3).mean(), 0.0, atol=0.0087, rtol=0
        )

    @parameterized.product(
        noise=("bernoulli", "gaussian"),
        noise_shape=((None, 1, None), [11, 1, 7], (1, None, 1), (1, 1, 1)),
    )
    def test_noise_shape_is_shared_along_axes_of_one(self, noise, noise_shape):
        layer = MCDropout(0.5, noise=noise, noise_shape=noise_shape, seed=3)
        y = keras.ops.convert_to_numpy(layer(np.ones((11, 5, 7), "float32")))
        self.assertEqual(y.shape, (11, 5, 7))
        shared = tuple(a for a, size in enumerate(noise_shape) if size == 1)
        first = np.take(y, [0], axis=shared[0])
        for axis in shared[1:]:
            first = np.take(first, [0], axis=axis)
        self.assertAllEqual(y, np.broadcast_to(first, y.shape))
        # And is not shared along the others.
        if first.size > 1:
            self.assertGreater(len(np.unique(first)), 1)

    @parameterized.parameters(
        ((None, 1),), ((None, 1, 1, 1),), ((None, 4, None),), ((2, 1, 1),)
    )
    def test_noise_shape_that_does_not_fit(self, noise_shape):
        layer = MCDropout(0.5, noise_shape=noise_shape)
        with self.assertRaisesRegex(
            BayesdropError, r"`noise_shape` does not fit.*Received: noise_shape"
        ):
            layer(np.ones((11, 5, 7), "float32"))

    @parameterized.parameters("x", 3, ((0, 1),), ((None, 1.0),), ((True, 1),))
    def test_wrong_noise_shapes(self, noise_shape):
        with self.assertRaisesRegex(
            BayesdropError, "Invalid value for argument `noise_shape`"
        ):
            MCDropout(0.5, noise_shape=noise_shape)

    @parameterized.parameters("normal", None, 1)
    def test_wrong_noise(self, noise):
        with self.assertRaisesRegex(
            BayesdropError,
            "`noise`. Expected one of 'bernoulli', 'gaussian'. Received: noise",
        ):
            MCDropout(0.5, noise=noise)

    def test_numpy_arguments_become_plain_ones(self):
        config = MCDropout(
            np.float32(0.5), noise_shape=[None, np.int64(1)]
        ).get_config()
        self.assertIs(type(config["rate"]), float)
        self.assertEqual(config["noise_shape"], (None, 1))
        self.assertIs(type(config["noise_shape"][1]), int)

    def test_gradient_is_the_noise(self):
        x = tf.constant(np.linspace(-3, 3, 35, dtype="float32").reshape(5, 7))
        for noise in ("bernoulli", "gaussian"):
            layer = MCDropout(0.4, noise=noise, seed=8)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x)
            again = MCDropout(0.4, noise=noise, seed=8)
            self.assertAllEqual(tape.gradient(y, x), again(tf.ones_like(x)))
