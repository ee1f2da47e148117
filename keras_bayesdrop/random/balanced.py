# SPDX-License-Identifier: Apache-2.0
"""Balanced words: the 16 samples of a block share out 16 strata.

Take one (seed, site, row, unit) and the 16 samples of a block, `sample div 16`.
Their words fall one into each of 16 equal parts of the 32-bit range, in an
order of its own. A unit of rate 0.25 is then dropped in 4 of the 16 samples.

    word   = stratum(sample mod 16) * 2^28 + (the independent word mod 2^28)
    stratum(s) = a * s xor b    in GF(16), modulo x^4 + x + 1

The order (a, b) of a unit in a block comes from 16 bits, `half`:

    b = half mod 16,    a = 1 + (half div 16) * 15 div 2^12

and `half` from counters of its own, which no noise uses:

    Philox4x32-10
      key            = seed (64 bits)
      counter low64  = row * ceil(units / 8) + unit div 8
      counter high64 = (site + 2^31) * 2^32 + sample div 16
      half           = low (unit even) or high (unit odd) half of output
                       word number (unit mod 8) div 2

A word by itself stays uniform on 32 bits, because `b` is. Words of different
units, rows, sites and blocks stay independent. Two samples of a block are
uniform over the pairs of different strata, up to 2^-12 because 15 does not
divide 2^12. The variance of a mean depends on such pairs alone. In a whole
block every stratum occurs once, whatever the bits.

A word is still a function of (seed, site, sample, row, unit): nothing is made
together with it or kept.
"""

from typing import Any

import numpy as np
import tensorflow as tf

# Numbers of the sites, and of other streams of words, are below this. Orders
# have the counters of the sites from here on.
ORDER_SITES = 2**31
STRATA = 16
HALVES_PER_COUNTER = 8
_STRATUM_BITS = 4
_FACTOR_BITS = 12
_POLYNOMIAL = 0b10011
# The stratum stands in these bits of a word.
_TOP = 0xF0000000
_STRATA_PER_WORD = 8


def field_product(a: int, b: int) -> int:
    """Multiplies in GF(16), modulo x^4 + x + 1."""
    product = 0
    for bit in range(_STRATUM_BITS):
        if b >> bit & 1:
            product ^= a << bit
    for bit in reversed(range(_STRATUM_BITS, 2 * _STRATUM_BITS - 1)):
        if product >> bit & 1:
            product ^= _POLYNOMIAL << (bit - _STRATUM_BITS)
    return product


def _packed_products() -> Any:
    """Returns [16 factors, 2]: the strata of 8 samples in each word.

    The product with sample `s` stands in 4 bits of word `s div 8`, from bit
    `4 * (s mod 8)` on.
    """
    packed = np.zeros([STRATA, STRATA // _STRATA_PER_WORD], np.uint32)
    for factor in range(STRATA):
        for sample in range(STRATA):
            word, place = divmod(sample, _STRATA_PER_WORD)
            product = field_product(factor, sample)
            packed[factor, word] |= np.uint32(product << _STRATUM_BITS * place)
    return packed


_PRODUCTS = _packed_products()


def halves_of(words: tf.Tensor) -> tf.Tensor:
    """Returns [rows, 2 * words]: the low and the high half of each word."""
    low = tf.bitwise.bitwise_and(words, tf.constant(0xFFFF, tf.uint32))
    high = tf.bitwise.right_shift(words, tf.constant(16, tf.uint32))
    pairs = tf.stack([low, high], axis=-1)
    return tf.reshape(pairs, [tf.shape(words)[0], -1])


def block_strata(halves: tf.Tensor) -> tf.Tensor:
    """Returns the strata of all samples of a block, packed.

    Args:
        halves: Integer tensor [rows, units] of the 16 bits of each order.

    Returns:
        uint32 tensor [rows, 2, units]: samples 0 to 7 and 8 to 15 of the
        block, 4 bits each, the first lowest.
    """
    halves = tf.cast(halves, tf.int32)
    factor = 1 + (halves // STRATA) * (STRATA - 1) // (1 << _FACTOR_BITS)
    start = tf.cast(halves % STRATA, tf.uint32) * tf.constant(
        0x11111111, tf.uint32
    )
    packed = tf.gather(tf.constant(_PRODUCTS.T), factor, axis=1)
    return tf.bitwise.bitwise_xor(
        tf.transpose(packed, [1, 0, 2]), start[:, tf.newaxis]
    )


def balance_block(words: tf.Tensor, strata: tf.Tensor) -> tf.Tensor:
    """Puts the words of a whole block into their strata.

    Args:
        words: uint32 tensor [rows, 16, units], independent.
        strata: What `block_strata` returns.

    Returns:
        uint32 tensor like `words`.
    """
    shape = tf.shape(words)
    shifts = _shift_of(np.arange(_STRATA_PER_WORD, dtype=np.uint32))
    places = tf.constant(shifts[:, np.newaxis])
    # [rows, 2, 8, units]
    top = tf.bitwise.left_shift(strata[:, :, tf.newaxis], places)
    return _with_top(words, tf.reshape(top, shape))


def balance_sample(
    words: tf.Tensor, strata: tf.Tensor, sample: tf.Tensor
) -> tf.Tensor:
    """Puts the words of one sample of a block into their strata.

    Args:
        words: uint32 tensor [units], independent.
        strata: What `block_strata` returns for one row.
        sample: Scalar integer tensor, number of the sample in its block.

    Returns:
        uint32 tensor like `words`.
    """
    sample = tf.cast(sample, tf.int32)
    of_word = tf.gather(strata[0], sample // _STRATA_PER_WORD)
    shift = tf.cast(_shift_of(sample % _STRATA_PER_WORD), tf.uint32)
    return _with_top(words, tf.bitwise.left_shift(of_word, shift))


def _shift_of(place: Any) -> Any:
    """Returns what moves the stratum of a sample to the top of a word."""
    return (_STRATA_PER_WORD - 1 - place) * _STRATUM_BITS


def _with_top(words: tf.Tensor, top: tf.Tensor) -> tf.Tensor:
    """Returns words with the four top bits of others."""
    differ = tf.bitwise.bitwise_xor(words, top)
    moved = tf.bitwise.bitwise_and(differ, tf.constant(_TOP, tf.uint32))
    return tf.bitwise.bitwise_xor(words, moved)
