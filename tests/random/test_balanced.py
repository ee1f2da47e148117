# SPDX-License-Identifier: Apache-2.0
"""Balanced words, against the contract written in plain integers.

`balanced_words` is that contract. Other tests import it to predict, bit for
bit, which units an engine drops.
"""

import functools
import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.random import balanced
from keras_bayesdrop.random import philox
from tests.random.test_rng import philox_words
from tests.random.test_rng import rounds

SIXTEEN = range(16)
# Of each statistical test below: with fifty of them and fixed seeds, a right
# program fails one in a hundred thousand choices of the seeds.
LEAST_P = 2e-7


def product(a: int, b: int) -> int:
    """Multiplies polynomials over GF(2), modulo x^4 + x + 1."""
    result = 0
    for _ in range(4):
        result ^= a if b & 1 else 0
        b >>= 1
        a = (a << 1) ^ (0b10011 if a & 8 else 0)
    return result


@functools.cache
def strata_of(half: int) -> list[int]:
    """Returns the strata of the samples of a block, by 16 bits."""
    a, b = 1 + (half // 16) * 15 // 4096, half % 16
    return [product(a, s) ^ b for s in SIXTEEN]


def balanced_words(
    seed: int, site: int, samples: range, rows: range, units: int
) -> np.ndarray:
    """Makes the words of the contract, uint32 [rows, samples, units]."""
    words = philox_words(seed, site, samples, rows, units)
    groups = -(-units // 8)
    for i, j in itertools.product(range(len(rows)), range(len(samples))):
        low = [(rows[i] * groups + group) % 2**64 for group in range(groups)]
        high = (site + 2**31) * 2**32 + samples[j] // 16
        counter = np.array(
            [[n % 2**32, n >> 32, high % 2**32, high >> 32] for n in low],
            np.uint64,
        )
        order = rounds(counter, seed % 2**64)
        for unit in range(units):
            word = int(order[unit // 8, unit % 8 // 2])
            half = word >> 16 if unit % 2 else word % 2**16
            stratum = strata_of(half)[samples[j] % 16]
            low_bits = int(words[i, j, unit]) % 2**28
            words[i, j, unit] = stratum * 2**28 + low_bits
    return words


def make(seed, site, samples, rows, units, balance=True):
    """The words of the package, for ranges."""
    return philox.counter_words(
        tf.constant(philox.seed_to_key(seed), tf.uint64),
        site,
        samples[0],
        len(samples),
        samples[-1] // 16 - samples[0] // 16 + 1,
        rows[0],
        len(rows),
        units,
        balance,
    ).numpy()


class TestContract:
    @pytest.mark.parametrize(
        ("where", "word"),
        [
            ((0, 0, range(1), range(1), 1), 0x2627E8D5),
            ((0, 0, range(1, 2), range(1), 1), 0xF8E4CCA4),
            ((2**64 - 1, 2**31 - 1, range(2**36 - 1, 2**36),
              range(2**33, 2**33 + 1), 13), 0x4E4E49A5),
        ],
    )  # fmt: skip
    def test_known_answers(self, where, word):
        assert make(*where)[0, 0, -1] == word
        assert balanced_words(*where)[0, 0, -1] == word

    @hypothesis.given(
        seed=st.integers(-(2**64), 2**65),
        site=st.integers(0, 2**31 - 1),
        first=st.integers(0, 100),
        count=st.integers(1, 20),
        row=st.integers(0, 2**40),
        num_rows=st.integers(1, 3),
        units=st.integers(1, 33),
    )
    @hypothesis.settings(deadline=None, max_examples=50)
    def test_equal_the_contract(
        self, seed, site, first, count, row, num_rows, units
    ):
        where = (
            seed,
            site,
            range(first, first + count),
            range(row, row + num_rows),
            units,
        )
        np.testing.assert_array_equal(make(*where), balanced_words(*where))

    def test_only_the_stratum_differs_from_the_independent_word(self):
        where = (5, 2, range(40), range(3), 19)
        changed = make(*where) ^ make(*where, balance=False)
        assert not (changed & 0x0FFFFFFF).any()
        # One in 16 words is in its stratum already: 2,280 words, 10 standard
        # deviations of the share are 0.05.
        assert abs(np.mean(changed == 0) - 1 / 16) < 0.05

    def test_one_sample_of_one_row(self):
        whole = make(3, 7, range(50), range(9, 12), 21)
        for sample, row in itertools.product((0, 7, 8, 15, 16, 49), range(3)):
            words = philox.sample_words(
                tf.constant(3, tf.uint64),
                7,
                tf.constant(sample, tf.int64),
                tf.constant(9 + row, tf.int64),
                21,
                balanced=True,
            )
            np.testing.assert_array_equal(words, whole[row, sample])

    def test_more_samples_rows_and_units_do_not_change_words(self):
        whole = make(3, 1, range(64), range(6), 24)
        np.testing.assert_array_equal(
            make(3, 1, range(3, 50), range(2, 5), 24), whole[2:5, 3:50]
        )

    def test_compiled(self):
        def words(units):
            return philox.counter_words(
                tf.constant(3, tf.uint64), 1, 0, 20, 2, 5, 2, units, True
            )

        expected = make(3, 1, range(20), range(5, 7), 11)
        jitted = tf.function(lambda: words(11), jit_compile=True)
        np.testing.assert_array_equal(jitted(), expected)
        # A number of units that is known only when the program runs.
        open_units = tf.function(words, autograph=False)
        np.testing.assert_array_equal(open_units(tf.constant(11)), expected)


class TestOrders:
    def test_product(self):
        for a, b in itertools.product(SIXTEEN, SIXTEEN):
            assert balanced.field_product(a, b) == product(a, b)

    def test_every_order_has_every_stratum_once(self):
        for half in range(0, 2**16, 7):
            assert sorted(strata_of(half)) == list(SIXTEEN)

    def test_pairs_are_exactly_uniform(self):
        """All factors and starts: each pair of different strata once."""
        for s, t in itertools.combinations(SIXTEEN, 2):
            pairs = {
                (product(a, s) ^ b, product(a, t) ^ b)
                for a in range(1, 16)
                for b in SIXTEEN
            }
            assert pairs == set(itertools.permutations(SIXTEEN, 2))

    def test_factors_are_uniform_up_to_a_twelfth_bit(self):
        factors = 1 + np.arange(4096) * 15 // 4096
        counts = np.bincount(factors, minlength=16)
        assert counts[0] == 0
        assert set(counts[1:]) == {273, 274}

    def test_every_block_has_every_stratum_once(self):
        words = make(11, 4, range(64), range(5), 37)
        strata = (words >> 28).reshape(5, 4, 16, 37)
        ordered = np.sort(strata, axis=2)
        assert (ordered == np.arange(16)[:, None]).all()

    def test_a_unit_is_dropped_in_its_share_of_a_block(self):
        words = make(2, 0, range(160), range(2), 300)
        for rate in (0.25, 0.5, 0.3):
            dropped = words < philox.rate_to_threshold(rate)
            counts = dropped.reshape(2, 10, 16, 300).sum(axis=2)
            exact = 16 * rate
            assert set(np.unique(counts)) == {int(exact), int(np.ceil(exact))}


def assert_independent(first, second, cells=16):
    """A chi-square test of the top bits of words that come in pairs."""
    shift = 32 - int(np.log2(cells))
    table = np.zeros((cells, cells))
    np.add.at(table, (first.ravel() >> shift, second.ravel() >> shift), 1)
    assert table.sum() / cells**2 >= 20
    assert scipy.stats.chisquare(table.ravel()).pvalue > LEAST_P


@pytest.fixture(scope="module")
def words():
    """1,000 rows, four whole blocks and 13 units."""
    return make(1, 6, range(64), range(1000), 13)


class TestStatistics:
    def test_single_words_are_uniform(self, words):
        # Words of a block depend on each other, so one sample of each block.
        for sample in (0, 7, 8, 15):
            some = words[:, sample::16].ravel()
            uniform = (some + 0.5) / 2**32
            assert scipy.stats.kstest(uniform, "uniform").pvalue > LEAST_P
            for shift in (0, 8, 16, 20, 24):
                counts = np.bincount((some >> shift) & 255, minlength=256)
                assert scipy.stats.chisquare(counts).pvalue > LEAST_P

    def test_units_are_independent(self, words):
        # Units of one counter of orders, of one word of it, and of others.
        for one, other in ((0, 1), (1, 2), (0, 7), (7, 8), (3, 11)):
            assert_independent(words[:, 3::16, one], words[:, 3::16, other], 8)

    def test_units_are_independent_in_different_samples(self, words):
        for one, other in ((0, 1), (0, 15), (7, 8)):
            assert_independent(words[:, one::16, 2], words[:, other::16, 3], 8)

    def test_rows_are_independent(self, words):
        assert_independent(words[:-1:2, ::16], words[1::2, ::16])
        assert_independent(words[:-8:2, 5::16], words[8::2, 5::16])

    def test_sites_are_independent(self, words):
        other = make(1, 7, range(64), range(1000), 13)
        assert_independent(words[:, ::16], other[:, ::16])

    def test_blocks_are_independent(self, words):
        for one, other in ((0, 16), (5, 26), (15, 16)):
            assert_independent(words[:, one], words[:, other])

    def test_low_bits_do_not_tell_the_stratum(self, words):
        for sample in (0, 5, 15):
            some = words[:, sample::16]
            assert_independent(some, some << 4)
        # Nor do those of another sample of the block.
        assert_independent(words[:, 3::16], words[:, 4::16] << 4)

    def test_samples_of_a_block_are_uniform_over_pairs_of_strata(self, words):
        """52,000 pairs over 240: the uneven factor would take millions."""
        for one, other in ((0, 1), (0, 8), (3, 12), (14, 15)):
            pairs = np.zeros((16, 16))
            tops = words[:, one::16] >> 28, words[:, other::16] >> 28
            np.add.at(pairs, tuple(top.ravel() for top in tops), 1)
            assert not pairs.diagonal().any()
            different = pairs[~np.eye(16, dtype=bool)]
            assert scipy.stats.chisquare(different).pvalue > LEAST_P

    def test_orders_of_units_differ(self, words):
        """Else sums over units would be as far off as with one unit."""
        strata = (words >> 28).reshape(1000, 4, 16, 13)
        same = (strata[..., 0] == strata[..., 1]).all(axis=2)
        # One in 240 of 4,000; 5 standard deviations of the count are 20.
        assert abs(same.sum() - 4000 / 240) < 20


def test_a_van_der_corput_order_would_be_noticed():
    """The trap: one order for all units has only two masks at rate 0.5."""
    order = [int(f"{s:04b}"[::-1], 2) for s in SIXTEEN]
    rng = np.random.default_rng(0)
    starts = rng.integers(0, 16, (1000, 1, 2))
    strata = np.array(order)[:, None] ^ starts
    words = (strata << 28).astype(np.uint32)
    masks = {tuple(mask) for mask in (words[:, :, 0] >= 2**31).tolist()}
    assert len(masks) == 2
    ours = make(1, 6, range(16), range(1000), 1)[:, :, 0] >= 2**31
    # Halves of GF(16) by a linear form, and their complements.
    assert len({tuple(mask) for mask in ours.tolist()}) == 30
