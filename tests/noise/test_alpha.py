# SPDX-License-Identifier: Apache-2.0
"""Alpha dropout from words."""

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.noise import Alpha
from tests.helpers import TestCase
from tests.random.test_rng import philox_words


class AlphaTest(TestCase):
    def test_two_values_are_those_of_keras(self):
        x = np.full((4, 500), 0.8, np.float32)
        for rate in (0.1, 0.5, 0.9):
            layer = keras.layers.AlphaDropout(rate, seed=3)
            expected = np.unique(np.asarray(layer(x, training=True)))
            words = philox_words(2, 0, range(4), range(1), 500)[0]
            y = Alpha(rate).apply(tf.constant(x), tf.constant(words)).numpy()
            self.assertEqual(len(expected), 2)
            self.assertAllClose(np.unique(y), expected, rtol=1e-5, atol=1e-6)

    def test_drops_the_words_below_the_threshold(self):
        words = philox_words(2, 0, range(4), range(1), 500)[0]
        x = np.full(words.shape, 5.0, np.float32)
        y = Alpha(0.3).apply(tf.constant(x), tf.constant(words)).numpy()
        self.assertAllEqual(y < 0, words < round(0.3 * 2**32))

    def test_keeps_mean_and_variance(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(16, 2500))
        words = philox_words(9, 0, range(16), range(1), 2500)[0]
        y = Alpha(0.2).apply(tf.constant(x), tf.constant(words)).numpy()
        # 40,000 draws of mean 0, variance 1. The dropped value, (-1.76) before
        # scaling, is no outlier: the fourth moment stays below 4, so that of
        # the variance has standard error below sqrt(3 / 40,000).
        self.assertAllClose(y.mean(), 0.0, atol=4 / 200, rtol=0)
        self.assertAllClose(y.var(), 1.0, atol=4 * np.sqrt(3) / 200, rtol=0)

    def test_inactive_at_rate_zero(self):
        self.assertFalse(Alpha(0.0).active)
        self.assertTrue(Alpha(0.5).active)
