# SPDX-License-Identifier: Apache-2.0
"""Moments of samples that come in blocks, against NumPy in float64."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.prediction.sampling import accumulate
from tests.helpers import TestCase


def _accumulated(samples, cuts=(), task="regression"):
    """Moments of [samples, rows, ...], handed over in blocks."""
    state = None
    for block in np.split(samples, cuts):
        tensor = tf.constant(np.swapaxes(block, 0, 1))
        if state is None:
            state = accumulate.start(tensor, task)
        else:
            state = accumulate.advance(state, tensor, task)
    return accumulate.finish(state)


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


def _plain_float32(samples, cuts):
    """Mean and variance by the formulas alone, all of it in float32."""
    shift = samples[0]
    count = mean = m2 = None
    for block in np.split(samples, cuts):
        rows = tf.constant(np.swapaxes(block, 0, 1))
        deviations = rows - tf.constant(shift)[:, tf.newaxis]
        number = tf.constant(len(block), tf.float32)
        block_mean = tf.reduce_mean(deviations, axis=1)
        centred = deviations - block_mean[:, tf.newaxis]
        block_m2 = tf.reduce_sum(centred * centred, axis=1)
        if count is None:
            count, mean, m2 = number, block_mean, block_m2
            continue
        total = count + number
        delta, share = block_mean - mean, number / total
        mean += delta * share
        m2 += block_m2 + delta * delta * (count * share)
        count = total
    exact = shift.astype(np.float64) + mean.numpy()
    return exact.astype(np.float32), m2.numpy() / (count.numpy() - 1)


class MagnitudeTest(TestCase):
    """Finite samples have a finite spread, and none is flushed to zero."""

    def test_ordinary_numbers_are_computed_in_float32(self):
        for std in (1e-9, 1e-3, 1.0, 1e4, 1e12):
            samples = _drawn((100, 4, 3), mean=std, std=std)
            samples[:, 1, 0] = samples[0, 1, 0]  # One that does not vary.
            samples[:, 2, 2] = np.abs(samples[:, 2, 2])
            for cuts in ((), (1,), range(16, 100, 16)):
                mean, variance = _plain_float32(samples, cuts)
                moments = _accumulated(samples, cuts)
                self.assertEqual(moments.variance.dtype, np.float32)
                self.assertAllEqual(moments.mean, mean)
                self.assertAllEqual(moments.variance, variance)

    def test_an_element_does_not_change_others(self):
        samples = _drawn((50, 3, 4))
        cuts = range(8, 50, 8)
        alone = _accumulated(samples, cuts)
        samples[:, 1, 2] *= np.float32(1e25)
        samples[:, 2, 0] *= np.float32(1e-25)
        moments = _accumulated(samples, cuts)
        others = np.ones((3, 4), bool)
        others[1, 2] = others[2, 0] = False
        self.assertAllEqual(moments.mean[others], alone.mean[others])
        self.assertAllEqual(moments.variance[others], alone.variance[others])
        self.assertAllClose(
            moments.variance[~others],
            alone.variance[~others] * [1e50, 1e-50],
            rtol=1e-5,
        )

    def test_of_all_magnitudes_against_float64(self):
        @hypothesis.given(
            mean=st.floats(-30, 30),
            ratio=st.floats(-3, 3),
            later=st.floats(-30, 30),
            seed=st.integers(0, 2**32 - 1),
            cuts=st.sets(st.integers(1, 39)),
        )
        @hypothesis.settings(max_examples=200, deadline=None)
        def check(mean, ratio, later, seed, cuts):
            rng = np.random.default_rng(seed)
            # Spreads from 1e-30 to 1e30, in the last element of another size
            # from the middle of the samples on.
            std = 10.0 ** np.clip(mean + ratio, -30, 30)
            draws = rng.normal(size=(40, 2, 3))
            samples = 10.0**mean * rng.choice([-1, 1]) + std * draws
            samples[20:, 1, 2] = 10.0**later * draws[20:, 1, 2]
            samples[:, 0, 1] = samples[0, 0, 1]
            samples = samples.astype(np.float32)
            exact = samples.astype(np.float64)
            moments = _accumulated(samples, sorted(cuts))
            wanted = exact.std(axis=0, ddof=1)
            spread = np.sqrt(moments.variance.astype(np.float64))
            self.assertAllClose(spread, wanted, rtol=2e-5, atol=0)
            self.assertAllClose(
                moments.mean,
                exact.mean(axis=0),
                rtol=1e-6,
                atol=1e-6 * np.max(wanted),
            )
            self.assertEqual(moments.variance[0, 1], 0)

        check()

    def test_blocks_that_do_not_vary_keep_what_was_there(self):
        for size in (1e-25, 1e25):
            samples = _drawn((60, 2, 2), std=size)
            samples[20:] = samples[0]
            moments = _accumulated(samples, (20, 40))
            self.assertAllClose(
                np.sqrt(moments.variance),
                samples.astype(np.float64).std(axis=0, ddof=1),
                rtol=1e-5,
                atol=0,
            )

    def test_range_of_float32_is_used_to_its_ends(self):
        top = np.finfo(np.float32).max
        samples = np.array([top, -top] * 20, np.float32).reshape(40, 1, 1)
        moments = _accumulated(samples, (1, 16))
        self.assertAllClose(
            np.sqrt(moments.variance),
            samples.astype(np.float64).std(axis=0, ddof=1),
            rtol=1e-6,
        )
        self.assertEqual(moments.mean[0, 0], 0)

    def test_probabilities_stay_in_float32(self):
        samples = np.full((20, 1, 2), 1e-25, np.float32)
        samples[::2] = 2e-25
        samples[..., 1] = 1 - samples[..., 0]
        moments = _accumulated(samples, (5,), "classification")
        self.assertEqual(moments.variance.dtype, np.float32)
