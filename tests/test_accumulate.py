# SPDX-License-Identifier: Apache-2.0
"""Moments of samples that come in blocks, against NumPy in float64."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import scipy.stats
import tensorflow as tf

from keras_bayesdrop import _accumulate
from tests.helpers import TestCase


def _accumulated(samples, cuts=(), task="regression"):
    """Moments of [samples, rows, ...], handed over in blocks."""
    state = None
    for block in np.split(samples, cuts):
        tensor = tf.constant(np.swapaxes(block, 0, 1))
        if state is None:
            state = _accumulate.start(tensor, task)
        else:
            state = _accumulate.advance(state, tensor, task)
    return _accumulate.finish(state)


def _drawn(shape, dtype=np.float32, mean=0.0, std=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return (mean + std * rng.normal(size=shape)).astype(dtype)


class MomentsTest(TestCase):
    def test_small_spread_around_a_large_mean_keeps_three_digits(self):
        # float32 steps at 1e4 are 1e-3: the sum of squares, 1e8 * T, has none
        # of the digits of a variance of 1e-4.
        samples = _drawn((1000, 3, 2), mean=1e4, std=1e-2)
        exact = samples.astype(np.float64)
        for cuts in ((), (1,), range(16, 1000, 16), range(1, 1000)):
            moments = _accumulated(samples, cuts)
            self.assertEqual(moments.mean.dtype, np.float32)
            self.assertAllClose(
                np.sqrt(moments.variance),
                exact.std(axis=0, ddof=1),
                rtol=5e-4,
                atol=0,
            )
            # The mean is right to the last bit but one of float32.
            self.assertAllClose(
                moments.mean, exact.mean(axis=0), rtol=2**-23, atol=0
            )

    def test_first_sample_far_from_the_rest(self):
        samples = _drawn((500, 2, 1), mean=1e4, std=1.0)
        samples[0] = 0.0
        exact = samples.astype(np.float64)
        moments = _accumulated(samples, range(16, 500, 16))
        self.assertAllClose(moments.mean, exact.mean(axis=0), rtol=1e-6)
        self.assertAllClose(
            moments.variance, exact.var(axis=0, ddof=1), rtol=1e-5
        )

    def test_equal_samples_have_no_variance_at_all(self):
        samples = np.full((100, 4), 0.1, np.float32)
        moments = _accumulated(samples, (16, 32, 33, 80))
        self.assertAllEqual(moments.variance, np.zeros(4))
        self.assertAllEqual(moments.mean, np.full(4, 0.1, np.float32))

    def test_variance_is_unbiased(self):
        samples = np.array([[1.0], [3.0]], np.float32)
        moments = _accumulated(samples)
        self.assertAllEqual(moments.mean, [2.0])
        self.assertAllEqual(moments.variance, [2.0])

    def test_float64_stays_float64(self):
        samples = _drawn((100, 3), np.float64, mean=1e8, std=1e-2)
        moments = _accumulated(samples, (7, 50))
        self.assertEqual(moments.mean.dtype, np.float64)
        self.assertEqual(moments.variance.dtype, np.float64)
        self.assertAllClose(
            moments.variance, samples.var(axis=0, ddof=1), rtol=1e-6, atol=0
        )

    @hypothesis.given(
        seed=st.integers(0, 2**32 - 1),
        count=st.integers(2, 70),
        cuts=st.sets(st.integers(1, 69), max_size=6),
        mean=st.floats(-1e4, 1e4),
        scale=st.integers(-4, 4),
    )
    def test_any_split_gives_the_moments_of_numpy(
        self, seed, count, cuts, mean, scale
    ):
        samples = _drawn((count, 2, 3), mean=mean, std=10.0**scale, seed=seed)
        exact = samples.astype(np.float64)
        moments = _accumulated(samples, sorted(c for c in cuts if c < count))
        # The mean is rounded once to float32 (2^-24 relative), the deviations
        # before that to 2^-24 of their size, which is at most 8 std.
        std = exact.std(axis=0, ddof=1)
        allowed = 2.0**-23 * (np.abs(exact.mean(axis=0)) + 8 * std)
        error = np.abs(moments.mean - exact.mean(axis=0))
        self.assertTrue(np.all(error <= allowed))
        self.assertAllClose(
            moments.variance, exact.var(axis=0, ddof=1), rtol=2e-5, atol=0
        )

    @hypothesis.given(
        seed=st.integers(0, 2**32 - 1),
        cuts=st.sets(st.integers(1, 39), max_size=4),
    )
    def test_any_split_gives_the_entropies_and_votes(self, seed, cuts):
        logits = _drawn((40, 3, 4), std=3.0, seed=seed)
        p = tf.nn.softmax(logits).numpy()
        moments = _accumulated(p, sorted(cuts), "classification")
        entropy = scipy.stats.entropy(p.astype(np.float64), axis=-1)
        self.assertAllClose(moments.mean_entropy, entropy.mean(axis=0))
        votes = np.eye(4, dtype=int)[p.argmax(axis=-1)].sum(axis=0)
        self.assertAllEqual(moments.vote_counts, votes)


class ClassSumsTest(TestCase):
    def test_regression_has_none(self):
        moments = _accumulated(_drawn((4, 2)))
        self.assertIsNone(moments.mean_entropy)
        self.assertIsNone(moments.vote_counts)

    def test_certain_classes_have_no_entropy(self):
        p = np.zeros((5, 2, 3), np.float32)
        p[..., 1] = 1.0
        moments = _accumulated(p, (2,), "classification")
        self.assertAllEqual(moments.mean_entropy, [0.0, 0.0])
        self.assertAllEqual(moments.vote_counts, [[0, 5, 0]] * 2)

    def test_binary(self):
        p = np.array([[0.0, 0.5], [1.0, 0.25], [0.2, 0.75]], np.float32)
        moments = _accumulated(p[:, :, None], (1,), "binary")
        q = p.astype(np.float64)
        entropy = scipy.stats.entropy(np.stack([q, 1 - q]), axis=0)
        self.assertAllClose(moments.mean_entropy[:, 0], entropy.mean(axis=0))
        # A half counts for the class 1.
        self.assertAllEqual(moments.vote_counts[:, 0], [1, 2])
