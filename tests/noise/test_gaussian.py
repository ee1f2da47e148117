# SPDX-License-Identifier: Apache-2.0
"""Gaussian noise, multiplied and added, from words."""

import numpy as np
import scipy.special
import tensorflow as tf

from keras_bayesdrop.noise import AdditiveGaussian
from keras_bayesdrop.noise import Gaussian
from tests.helpers import TestCase
from tests.random.test_rng import philox_words


def _normal(words):
    return scipy.special.ndtri((words.astype(np.float64) + 0.5) * 2.0**-32)


class GaussianTest(TestCase):
    def setUp(self):
        super().setUp()
        self.words = philox_words(8, 1, range(16), range(25), 100)
        self.x = np.linspace(-2, 3, 100).astype(np.float64)

    def test_multiplies_by_the_formula(self):
        for rate in (0.1, 0.5, 0.8):
            y = Gaussian(rate).apply(tf.constant(self.x), self.words).numpy()
            factor = 1 + np.sqrt(rate / (1 - rate)) * _normal(self.words)
            self.assertAllClose(y, self.x * factor, rtol=1e-12, atol=1e-12)

    def test_has_the_moments_of_dropout(self):
        rate, n = 0.3, self.words.size
        ones = tf.ones(self.words.shape, tf.float32)
        y = Gaussian(rate).apply(ones, tf.constant(self.words)).numpy()
        # 40,000 normal draws: 4 standard errors of mean and of variance.
        variance = rate / (1 - rate)
        self.assertAllClose(
            np.mean(y, dtype=np.float64),
            1.0,
            atol=4 * np.sqrt(variance / n),
            rtol=0,
        )
        self.assertAllClose(
            np.var(y, dtype=np.float64),
            variance,
            atol=4 * variance * np.sqrt(2 / n),
            rtol=0,
        )

    def test_adds_by_the_formula(self):
        y = AdditiveGaussian(0.7).apply(tf.constant(self.x), self.words).numpy()
        expected = self.x + 0.7 * _normal(self.words)
        self.assertAllClose(y, expected, rtol=1e-12, atol=1e-12)

    def test_inactive_without_variance(self):
        self.assertFalse(Gaussian(0.0).active)
        self.assertFalse(AdditiveGaussian(0.0).active)
        self.assertTrue(Gaussian(1e-3).active)
        self.assertTrue(AdditiveGaussian(1e-3).active)

    def test_finite_for_every_word_in_half_precision(self):
        ends = tf.constant([0, 2**32 - 1], tf.uint32)
        ones = tf.ones([2], tf.float16)
        for noise in (Gaussian(0.5), AdditiveGaussian(1.0)):
            y = noise.apply(ones, ends)
            self.assertEqual(y.dtype, tf.float16)
            self.assertTrue(np.all(np.isfinite(y.numpy())))
