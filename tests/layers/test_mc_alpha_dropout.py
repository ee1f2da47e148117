# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import MCAlphaDropout
from tests.helpers import TestCase


class MCAlphaDropoutTest(TestCase):
    def test_keeps_mean_and_variance_of_standard_inputs(self):
        x = np.random.default_rng(2).normal(size=(301, 503)).astype("float32")
        y = keras.ops.convert_to_numpy(MCAlphaDropout(0.2, seed=5)(x))
        # n = 151_403. 4 standard errors of the mean: 4 / sqrt(n) = 0.0103.
        # Variance: the fourth moment of y is at most 3.0 (it is a mixture of
        # a point and a normal, here 2.7), so 4 * sqrt((3 - 1) / n) = 0.0146.
        self.assertAllClose(y.mean(), 0.0, atol=0.0103, rtol=0)
        self.assertAllClose(y.var(), 1.0, atol=0.0146, rtol=0)

    def test_dropped_units_take_the_saturated_value(self):
        y = keras.ops.convert_to_numpy(
            MCAlphaDropout(0.2, seed=5)(np.full((31, 17), 0.5, "float32"))
        )
        saturated = -1.0507009873554805 * 1.6732632423543772
        a = (0.8 * (1 + 0.2 * saturated**2)) ** -0.5
        b = -a * saturated * 0.2
        self.assertAllClose(
            np.unique(y), [a * saturated + b, a * 0.5 + b], rtol=1e-6
        )

    def test_noise_shape(self):
        layer = MCAlphaDropout(0.5, noise_shape=[None, 1, None], seed=1)
        x = np.ones((3, 5, 7), "float32")
        y = keras.ops.convert_to_numpy(layer(x))
        self.assertAllEqual(y, np.broadcast_to(y[:, :1], y.shape))
        self.assertEqual(len(np.unique(y)), 2)
        with self.assertRaisesRegex(BayesdropError, "does not fit"):
            layer(x[0])
        with self.assertRaisesRegex(BayesdropError, "`noise_shape`"):
            MCAlphaDropout(0.5, noise_shape="all")
