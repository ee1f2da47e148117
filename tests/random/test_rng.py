# SPDX-License-Identifier: Apache-2.0
"""The words of the counters, against a Philox written here and nowhere else.

`philox_words` is the contract as plain integers. Other tests import it to
predict, bit for bit, which units an engine drops.
"""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.random import philox
from tests.helpers import TestCase

_WORD = 2**32
_LOW = np.uint64(_WORD - 1)
_HALF = np.uint64(32)


def rounds(counter: np.ndarray, key: int) -> np.ndarray:
    """Runs ten rounds of Philox4x32.

    Args:
        counter: uint64 array [..., 4], 32 bits in each entry, lowest first.
        key: Integer of 64 bits.

    Returns:
        uint32 array [..., 4].
    """
    c0, c1, c2, c3 = (counter[..., i].astype(np.uint64) for i in range(4))
    k0, k1 = key % _WORD, key // _WORD
    for _ in range(10):
        p0 = c0 * np.uint64(0xD2511F53)
        p1 = c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (p1 >> _HALF) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _HALF) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0 = (k0 + 0x9E3779B9) % _WORD
        k1 = (k1 + 0xBB67AE85) % _WORD
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def philox_words(
    seed: int, site: int, samples: range, rows: range, units: int
) -> np.ndarray:
    """Makes the words of the contract, uint32 [rows, samples, units]."""
    sample = np.array(list(samples), np.uint64)[None, :, None]
    row = np.array(list(rows), np.uint64)[:, None, None]
    unit = np.arange(units, dtype=np.uint64)[None, None, :]
    groups = np.uint64(-(-units // 4))
    sixteen, four = np.uint64(16), np.uint64(4)
    low = (row * sixteen + sample % sixteen) * groups + unit // four
    high = np.uint64(site * _WORD) + sample // sixteen
    low, high = np.broadcast_arrays(low, high)
    counter = np.stack(
        [low & _LOW, low >> _HALF, high & _LOW, high >> _HALF], axis=-1
    )
    output = rounds(counter, seed % 2**64)  # [rows, samples, units, 4]
    word = np.broadcast_to(unit % four, low.shape)[..., None].astype(np.int64)
    return np.take_along_axis(output, word, axis=-1)[..., 0]


def philox_keep(
    seed: int, site: int, samples: range, rows: range, units: int, rate: float
) -> np.ndarray:
    """Says which units stay: bool [rows, samples, units]."""
    threshold = min(int(rate * _WORD), _WORD - 1)
    return philox_words(seed, site, samples, rows, units) >= threshold


def _words(seed, site, samples, rows, units):
    """The words of the package, for ranges."""
    first, last = samples[0], samples[-1]
    return philox.counter_words(
        tf.constant(philox.seed_to_key(seed), tf.uint64),
        site,
        first,
        len(samples),
        last // 16 - first // 16 + 1,
        rows[0],
        len(rows),
        units,
    ).numpy()


class PhiloxTest(TestCase):
    def test_known_answers(self):
        # The answers of Random123's own test vectors (kat_vectors).
        zero = rounds(np.zeros(4, np.uint64), 0)
        expected = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
        self.assertAllEqual(zero, np.array(expected, np.uint32))
        ones = rounds(np.full(4, _WORD - 1, np.uint64), 2**64 - 1)
        expected = [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
        self.assertAllEqual(ones, np.array(expected, np.uint32))
        counter = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
        pi = rounds(np.array(counter, np.uint64), 0x299F31D0A4093822)
        expected = [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
        self.assertAllEqual(pi, np.array(expected, np.uint32))


class CounterWordsTest(TestCase):
    def test_known_answer_for_zero_key_and_counter(self):
        words = _words(0, 0, range(1), range(1), 4)[0, 0]
        expected = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
        self.assertAllEqual(words, np.array(expected, np.uint32))

    def test_equal_philox_for_odd_units(self):
        for units in (1, 2, 3, 4, 5, 7, 8, 17):
            # Samples 13..36 lie in three blocks, none of them whole but one.
            where = (3, range(13, 37), range(5, 9), units)
            self.assertAllEqual(
                _words(1234567, *where), philox_words(1234567, *where)
            )

    def test_equal_philox_for_seeds_of_any_size_and_sign(self):
        where = (1, range(3), range(2), 5)
        seeds = (0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
        for seed in (*seeds, -1, -(2**63), -12345, 2**64 + 7, 10**40):
            self.assertAllEqual(
                _words(seed, *where), philox_words(seed, *where), str(seed)
            )
        self.assertAllEqual(_words(-1, *where), _words(2**64 - 1, *where))
        self.assertNotAllClose(_words(-1, *where), _words(1, *where))

    def test_equal_philox_far_out(self):
        # Rows beyond 2^32 and samples beyond 2^31 use the counter's high words.
        for rows, samples, site in (
            (range(2**40, 2**40 + 2), range(2), 0),
            (range(2), range(2**31 + 5, 2**31 + 9), 0),
            (range(2**33 - 1, 2**33 + 1), range(2**35 + 14, 2**35 + 18), 65535),
        ):
            where = (site, samples, rows, 7)
            self.assertAllEqual(_words(9, *where), philox_words(9, *where))

    @hypothesis.given(
        seed=st.integers(-(2**64), 2**65),
        site=st.integers(0, 1000),
        first=st.integers(0, 100),
        count=st.integers(1, 40),
        row=st.integers(0, 10**6),
        num_rows=st.integers(1, 4),
        units=st.integers(1, 33),
    )
    def test_equal_philox_anywhere(
        self, seed, site, first, count, row, num_rows, units
    ):
        where = (
            site,
            range(first, first + count),
            range(row, row + num_rows),
            units,
        )
        self.assertAllEqual(_words(seed, *where), philox_words(seed, *where))

    def test_graph_and_xla_make_the_same_words(self):
        for units in (1, 3, 4, 5, 7, 17):
            for jit in (False, True):
                self.assertAllEqual(
                    _compiled(units, jit, dynamic=False),
                    philox_words(2**63 + 11, 2, range(14, 34), range(3), units),
                    f"units={units}, jit_compile={jit}",
                )

    def test_shapes_known_only_when_run_make_the_same_words(self):
        for units in (1, 5, 17):
            self.assertAllEqual(
                _compiled(units, False, dynamic=True),
                philox_words(2**63 + 11, 2, range(14, 34), range(3), units),
            )

    def test_more_blocks_than_needed_change_nothing(self):
        key = tf.constant(5, tf.uint64)
        few = philox.counter_words(key, 1, 16, 10, 1, 0, 2, 3)
        many = philox.counter_words(key, 1, 16, 10, 4, 0, 2, 3)
        self.assertAllEqual(few, many)

    def test_no_word_is_used_twice(self):
        # 6 sites * 20 samples * 8 rows * 5 units; two of 2^32 values that
        # collide by chance have probability 4800^2 / 2^33 = 0.3 %, and the
        # seed is fixed.
        words = np.concatenate(
            [_words(3, s, range(20), range(8), 5).ravel() for s in range(6)]
        )
        self.assertEqual(len(np.unique(words)), words.size)


def _compiled(units, jit, dynamic):
    seed = tf.constant(2**63 + 11, tf.uint64)

    @tf.function(jit_compile=jit, autograph=False)
    def static(seed):
        return philox.counter_words(seed, 2, 14, 20, 3, 0, 3, units)

    @tf.function(autograph=False)
    def open_(seed, sample, samples, row, rows, units):
        return philox.counter_words(
            seed, 2, sample, samples, 3, row, rows, units
        )

    if not dynamic:
        return static(seed).numpy()
    return open_(
        seed,
        tf.constant(14, tf.int64),
        tf.constant(20, tf.int32),
        tf.constant(0, tf.int64),
        tf.constant(3, tf.int32),
        tf.constant(units, tf.int32),
    ).numpy()


class ThresholdTest(TestCase):
    def test_rounds_once_in_double(self):
        # 0.3 * 2^32 is 1288490188.8 in double; float32 would make it ...240.
        self.assertEqual(philox.rate_to_threshold(0.3), 1288490188)
        self.assertEqual(philox.rate_to_threshold(0.5), 2**31)
        self.assertEqual(philox.rate_to_threshold(0.25), 2**30)
        self.assertEqual(philox.rate_to_threshold(0.2), 858993459)

    def test_ends(self):
        self.assertEqual(philox.rate_to_threshold(0.0), 0)
        self.assertEqual(philox.rate_to_threshold(1.0), 2**32 - 1)
        self.assertEqual(philox.rate_to_threshold(1 - 2**-53), 2**32 - 1)
        self.assertEqual(philox.rate_to_threshold(2**-32), 1)
        self.assertEqual(philox.rate_to_threshold(2**-34), 0)
        self.assertEqual(philox.rate_to_threshold(0.75 * 2**-32), 0)

    @hypothesis.given(st.floats(0, 1))
    def test_is_the_word_below(self, rate):
        threshold = philox.rate_to_threshold(rate)
        self.assertTrue(0 <= threshold < 2**32)
        self.assertLessEqual(threshold, rate * 2**32)
        # A whole word at the last, since 2^32 is no uint32.
        self.assertLessEqual(rate * 2**32 - threshold, 1.0)

    def test_scale(self):
        self.assertEqual(philox.rate_to_scale(0.0), 1.0)
        self.assertEqual(philox.rate_to_scale(0.5), 2.0)
        self.assertEqual(philox.rate_to_scale(1.0), 0.0)


# The ends, both sides of the middle, and words where float32 starts to round.
_EXTREME_WORDS = np.unique(
    np.array(
        [
            *range(9),
            *(2**k + d for k in range(3, 32) for d in (-1, 0, 1)),
            *(2**31 + d for d in range(-300, 300, 7)),
            *(2**32 - 2**k - d for k in range(3, 32) for d in (0, 1)),
            *(2**32 - 1 - d for d in range(9)),
        ],
        dtype=np.uint32,
    )
)


def _normal(words: np.ndarray) -> np.ndarray:
    """ndtri in double, the upper half as the mirror image of the lower.

    (word + 0.5) * 2^-32 and one minus it are both exact in double.
    """
    u = (words.astype(np.float64) + 0.5) * 2.0**-32
    tail = np.minimum(u, 1 - u)
    return np.where(u < 0.5, 1, -1) * scipy.special.ndtri(tail)


class WordsToNormalTest(TestCase):
    def test_extreme_words_in_double(self):
        draw = philox.words_to_normal(tf.constant(_EXTREME_WORDS), tf.float64)
        self.assertAllClose(
            draw.numpy(), _normal(_EXTREME_WORDS), rtol=1e-12, atol=1e-12
        )

    def test_extreme_words_in_float32(self):
        self._check_float32(philox.words_to_normal)

    def test_extreme_words_in_float32_in_a_graph(self):
        self._check_float32(tf.function(philox.words_to_normal))

    def test_extreme_words_in_float32_by_xla(self):
        # What `sample_function(...)` runs in a `predict` compiled with XLA.
        self._check_float32(
            tf.function(philox.words_to_normal, jit_compile=True)
        )

    def _check_float32(self, words_to_normal):
        draw = words_to_normal(tf.constant(_EXTREME_WORDS), tf.float32)
        # The tail's probability is rounded to 2^-24 relative: at the middle
        # that moves the draw by 2^-25 / pdf(0) = 7.5e-8, further out by less.
        # The rest is float32's own ndtri, good to a few 2^-23.
        self.assertAllClose(
            draw.numpy(), _normal(_EXTREME_WORDS), rtol=1e-6, atol=1.5e-7
        )

    def test_finite_at_both_ends_in_every_type(self):
        ends = tf.constant([0, 2**32 - 1], tf.uint32)
        # ndtri(2^-33) from tables: -6.3379.
        for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
            low, high = tf.cast(
                philox.words_to_normal(ends, dtype), tf.float64
            ).numpy()
            self.assertEqual(low, -high)
            self.assertAllClose(high, 6.3379, atol=0.03)
            self.assertEqual(philox.words_to_normal(ends, dtype).dtype, dtype)

    def test_grows_with_the_word(self):
        words = np.linspace(0, 2**32 - 1, 4001).astype(np.uint32)
        draw = philox.words_to_normal(tf.constant(words), tf.float64).numpy()
        self.assertTrue(np.all(np.diff(draw) > 0))

    def test_antisymmetric(self):
        words = tf.constant(_EXTREME_WORDS)
        mirrored = tf.constant(~_EXTREME_WORDS)
        for dtype in (tf.float32, tf.float64):
            self.assertAllEqual(
                philox.words_to_normal(words, dtype),
                -philox.words_to_normal(mirrored, dtype),
            )

    def test_is_normal(self):
        words = philox_words(11, 0, range(16), range(10), 125)
        draw = philox.words_to_normal(tf.constant(words), tf.float32).numpy()
        self.assertGreater(
            scipy.stats.kstest(draw.ravel(), "norm").pvalue, 0.01
        )


@pytest.mark.parametrize("axis", ["rows", "samples", "units", "sites"])
def test_neighbours_are_independent(axis):
    """A chi-square test of 4 x 4 bins of words next to each other."""
    words = np.stack(
        [_words(17, site, range(32), range(32), 8) for site in range(5)]
    )  # [sites, rows, samples, units]
    along = {"sites": 0, "rows": 1, "samples": 2, "units": 3}[axis]
    bins = (words >> np.uint32(30)).astype(np.int64)
    size = bins.shape[along]
    left = np.take(bins, range(0, size - 1, 2), along)
    right = np.take(bins, range(1, size, 2), along)
    table = np.bincount((4 * left + right).ravel(), minlength=16)
    statistic, pvalue = scipy.stats.chisquare(table)
    # The seed is fixed; 1e-4 is what chance alone passes at one in 10,000.
    assert pvalue > 1e-4, (axis, statistic, table)
