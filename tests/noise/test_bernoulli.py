# SPDX-License-Identifier: Apache-2.0
"""Dropout from words."""

import numpy as np
import tensorflow as tf

from keras_bayesdrop.noise import Bernoulli
from tests.helpers import TestCase
from tests.random.test_rng import philox_words

_EDGES = np.array([0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1], np.uint32)


def _apply(noise, x, words):
    return noise.apply(tf.constant(x), tf.constant(words)).numpy()


class BernoulliTest(TestCase):
    def test_keeps_from_the_threshold_on(self):
        y = _apply(Bernoulli(0.5), np.full(6, 3.0, np.float32), _EDGES)
        self.assertAllEqual(y, [0, 0, 0, 6, 6, 6])

    def test_the_threshold_itself_is_kept(self):
        # 0.3 in double: a rate rounded to float32 would keep 51 words fewer.
        words = np.array([1288490187, 1288490188, 1288490239], np.uint32)
        y = _apply(Bernoulli(0.3), np.ones(3, np.float32), words)
        self.assertAllEqual(y > 0, [False, True, True])
        self.assertAllClose(y[1:], [1 / 0.7, 1 / 0.7])

    def test_scale_has_the_precision_of_the_input(self):
        words = np.full(1, 2**32 - 1, np.uint32)
        for rate in (0.1, 0.3, 0.7):
            y = _apply(Bernoulli(rate), np.ones(1, np.float64), words)
            self.assertAllClose(y, [1 / (1 - rate)], rtol=1e-15, atol=0)

    def test_rate_zero_changes_nothing(self):
        noise = Bernoulli(0.0)
        self.assertFalse(noise.active)
        x = np.arange(6, dtype=np.float32)
        self.assertAllEqual(_apply(noise, x, _EDGES), x)

    def test_rate_one_drops_every_word(self):
        noise = Bernoulli(1.0)
        self.assertTrue(noise.active)
        y = _apply(noise, np.ones(6, np.float32), _EDGES)
        self.assertAllEqual(y, np.zeros(6))

    def test_tiny_rate_drops_only_the_first_words(self):
        y = _apply(Bernoulli(2 * 2.0**-32), np.ones(6, np.float32), _EDGES)
        self.assertAllEqual(y, [0, 0, 1, 1, 1, 1])

    def test_drop_fraction(self):
        words = philox_words(5, 0, range(16), range(25), 100)
        for rate in (0.01, 0.2, 0.5, 0.9):
            x = np.ones(words.shape, np.float32)
            dropped = np.mean(_apply(Bernoulli(rate), x, words) == 0)
            # 40,000 Bernoulli draws: 4 standard errors.
            error = 4 * np.sqrt(rate * (1 - rate) / words.size)
            self.assertAllClose(dropped, rate, atol=error, rtol=0)

    def test_keeps_the_dtype_and_broadcasts(self):
        words = philox_words(5, 0, range(2), range(1), 3)  # [1, 2, 3]
        for dtype in (np.float16, np.float32, np.float64):
            y = _apply(Bernoulli(0.5), np.ones((4, 1, 3), dtype), words)
            self.assertEqual(y.dtype, dtype)
            self.assertEqual(y.shape, (4, 2, 3))
            self.assertAllEqual(y[0], y[3])

    def test_is_a_value(self):
        self.assertEqual(Bernoulli(0.5), Bernoulli(0.5))
        self.assertEqual(hash(Bernoulli(0.5)), hash(Bernoulli(0.5)))
        self.assertNotEqual(Bernoulli(0.5), Bernoulli(0.25))
        self.assertIn("0.5", Bernoulli(0.5).describe())
