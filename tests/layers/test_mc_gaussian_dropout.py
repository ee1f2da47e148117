# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np

from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.layers import MCGaussianDropout
from tests.helpers import TestCase


class MCGaussianDropoutTest(TestCase):
    def test_is_dropout_with_gaussian_noise(self):
        x = np.random.default_rng(1).normal(size=(5, 7)).astype("float32")
        self.assertAllEqual(
            MCGaussianDropout(0.3, seed=4)(x),
            MCDropout(0.3, noise="gaussian", seed=4)(x),
        )

    def test_small_noise_survives_low_precision(self):
        # The noise has variance v = 0.001001; drawn in bfloat16 around one
        # it would have steps of 1/128 = 0.0078, a fourth of its deviation.
        layer = MCGaussianDropout(0.001, seed=4, dtype="mixed_bfloat16")
        x = np.exp2(np.random.default_rng(1).random((211, 503)))
        x = keras.ops.cast(x, "bfloat16")
        y = keras.ops.convert_to_numpy(keras.ops.cast(layer(x), "float64"))
        noise = y / keras.ops.convert_to_numpy(keras.ops.cast(x, "float64"))
        # n = 106_133 draws. Rounding y in [1, 2) to steps of 1/128 adds at
        # most (1/128)^2 / 12 = 5e-6. 4 standard errors: of the mean
        # 4 * sqrt(v / n) = 3.9e-4, of the variance 4 * v * sqrt(2 / n) =
        # 1.7e-5.
        self.assertAllClose(noise.mean(), 1.0, atol=4e-4, rtol=0)
        self.assertAllClose(noise.var(), 0.001001, atol=2.3e-5, rtol=0)
