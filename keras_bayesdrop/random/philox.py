# SPDX-License-Identifier: Apache-2.0
"""The counter contract: every random number is a function of where it is used.

A word of noise depends on (seed, site, sample, row, unit) and on nothing else:
not on the batch size, the chunking, the engine, or the number of threads.

    Philox4x32-10
      key            = seed (64 bits)
      counter low64  = (row * 16 + sample mod 16) * ceil(units / 4) + unit div 4
      counter high64 = site * 2^32 + sample div 16
      word           = output word number (unit mod 4)

Row-major, the words of 16 consecutive samples of consecutive rows have
consecutive counters, so one call of TensorFlow's own Philox makes them all.
`random/balanced.py` states how balanced words follow from these.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.choice import SAMPLES_PER_BLOCK as SAMPLES_PER_BLOCK
from keras_bayesdrop.random.balanced import HALVES_PER_COUNTER
from keras_bayesdrop.random.balanced import ORDER_SITES
from keras_bayesdrop.random.balanced import balance_block
from keras_bayesdrop.random.balanced import balance_sample
from keras_bayesdrop.random.balanced import block_strata
from keras_bayesdrop.random.balanced import halves_of

WORDS_PER_COUNTER = 4
# The counters of later samples would be those of the next site.
LAST_SAMPLE = SAMPLES_PER_BLOCK * 2**32 - 1
_PHILOX = 1  # the `alg` argument of TensorFlow's stateless random ops
_WORD_RANGE = 2**32


def count_rows_with_counters(units: int) -> int:
    """Returns how many rows have counters of their own at a site.

    With more of them the low half of a counter would overflow:

        (row * 16 + 15) * groups + groups - 1 < 2^64,  groups = ceil(units / 4)

    Args:
        units: Of the site.
    """
    groups = -(-units // WORDS_PER_COUNTER)
    return int(2**64 // (SAMPLES_PER_BLOCK * groups))


def rate_to_threshold(rate: float) -> int:
    """Returns the uint32 `t` for which a unit is kept iff `word >= t`.

    This is the only place where a drop rate is rounded. Engines receive the
    integer, because 0.3 is 1288490188 in double and 1288490240 in float32.

    Args:
        rate: Float in `[0, 1]`, the probability of dropping a unit.

    Returns:
        `floor(rate * 2^32)`, at most `2^32 - 1`.
    """
    return min(int(rate * _WORD_RANGE), _WORD_RANGE - 1)


def rate_tensor_to_threshold(rate: tf.Tensor) -> tf.Tensor:
    """Returns the uint32 threshold of a rate that is a float64 scalar."""
    words = tf.minimum(rate * _WORD_RANGE, _WORD_RANGE - 1.0)
    return tf.cast(tf.cast(words, tf.int64), tf.uint32)


def rate_to_scale(rate: float) -> float:
    """Returns what a kept unit is multiplied by; 0 where none is kept."""
    return 0.0 if rate >= 1.0 else 1.0 / (1.0 - rate)


def counter_words(
    seed: tf.Tensor,
    site: Any,
    first_sample: Any,
    num_samples: Any,
    num_blocks: int,
    first_row: Any,
    num_rows: Any,
    units: Any,
    balanced: bool = False,
) -> tf.Tensor:
    """Makes the words of one noise site.

    Args:
        seed: Scalar uint64 tensor.
        site: Int or scalar integer tensor, number of the noise site.
        first_sample: Int or scalar int64 tensor, the first sample wanted.
        num_samples: Int or scalar int32 tensor, how many samples are wanted.
        num_blocks: How many 16-sample blocks cover them, beginning with the
            block that holds `first_sample`.
        first_row: Int or scalar int64 tensor, index of the first example.
        num_rows: Int or scalar int32 tensor.
        units: Int or scalar int32 tensor, units of the site.
        balanced: Whether the samples of a block share out the strata.

    Returns:
        uint32 tensor [num_rows, num_samples, units].
    """
    groups = _groups(units, WORDS_PER_COUNTER)
    first_sample = _uint64(first_sample)
    low = _uint64(first_row) * _uint64(SAMPLES_PER_BLOCK) * _uint64(groups)
    first_block = first_sample // _uint64(SAMPLES_PER_BLOCK)
    sizes = [num_rows, SAMPLES_PER_BLOCK, groups * WORDS_PER_COUNTER]
    blocks = []
    for number in range(num_blocks):
        block = first_block + _uint64(number)
        words = _philox(seed, low, _first_of_site(site) + block, sizes)
        if balanced:
            strata = _strata(seed, site, block, first_row, num_rows, units)
            words = balance_block(words[:, :, :units], strata)
        blocks.append(words)
    words = blocks[0] if num_blocks == 1 else tf.concat(blocks, axis=1)
    offset = tf.cast(first_sample % _uint64(SAMPLES_PER_BLOCK), tf.int32)
    return tf.slice(
        words,
        _shape([0, offset, 0]),
        _shape([num_rows, num_samples, units]),
    )


def sample_words(
    seed: tf.Tensor,
    site: int,
    sample: Any,
    row: Any,
    units: int,
    balanced: bool = False,
) -> tf.Tensor:
    """Makes the words of one sample of one row at one noise site.

    Args:
        seed: Scalar uint64 tensor.
        site: Number of the noise site.
        sample: Scalar int64 tensor.
        row: Int or scalar int64 tensor.
        units: Units of the site.
        balanced: Whether the samples of a block share out the strata.

    Returns:
        uint32 tensor [units], as `counter_words` makes them.
    """
    groups = _groups(units, WORDS_PER_COUNTER)
    block_size = _uint64(SAMPLES_PER_BLOCK)
    sample = _uint64(sample)
    low = (_uint64(row) * block_size + sample % block_size) * _uint64(groups)
    block = sample // block_size
    high = _first_of_site(site) + block
    words = _philox(seed, low, high, [groups * WORDS_PER_COUNTER])[:units]
    if not balanced:
        return words
    strata = _strata(seed, site, block, row, 1, units)
    return balance_sample(words, strata, sample % block_size)


def words_to_uniform(words: tf.Tensor) -> tf.Tensor:
    """Maps a word to a float64 in (0, 1), `(word + 0.5) * 2^-32`."""
    return (tf.cast(words, tf.float64) + 0.5) / _WORD_RANGE


def words_to_normal(words: tf.Tensor, dtype: Any) -> tf.Tensor:
    """Maps a word to a standard normal draw, `ndtri((word + 0.5) * 2^-32)`.

    In float64 whatever the dtype: in float32 the words next to the ends would
    round to probabilities of 0 and 1, where the quantile is infinite.

    Args:
        words: uint32 tensor.
        dtype: Floating dtype of the result.

    Returns:
        Tensor of `dtype`, of the shape of `words`.
    """
    return tf.cast(tf.math.ndtri(words_to_uniform(words)), dtype)


def seed_to_key(seed: int) -> int:
    """Returns the 64-bit key of a Python seed of any size or sign."""
    return seed % 2**64


def _strata(
    seed: tf.Tensor,
    site: Any,
    block: tf.Tensor,
    first_row: Any,
    num_rows: Any,
    units: Any,
) -> tf.Tensor:
    """Returns the strata of a block of samples, see `block_strata`."""
    groups = _groups(units, HALVES_PER_COUNTER)
    low = _uint64(first_row) * _uint64(groups)
    high = _first_of_site(site + ORDER_SITES) + block
    sizes = [num_rows, groups * WORDS_PER_COUNTER]
    words = _philox(seed, low, high, sizes)
    return block_strata(halves_of(words)[:, :units])


def _philox(
    seed: tf.Tensor, low: tf.Tensor, high: tf.Tensor, sizes: Sequence[Any]
) -> tf.Tensor:
    """Returns words of consecutive counters, the first one given."""
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=_shape(sizes),
        key=tf.reshape(seed, [1]),
        counter=tf.stack([low, high]),
        alg=_PHILOX,
        dtype=tf.uint32,
    )


def _groups(units: Any, each: int) -> Any:
    """Returns how many counters the units of a site take."""
    return (units + each - 1) // each


def _first_of_site(site: Any) -> tf.Tensor:
    """Returns the high half of the first counter of a site."""
    if isinstance(site, int):
        return _uint64(site << 32)
    return _uint64(site) * _uint64(1 << 32)


def _uint64(value: Any) -> tf.Tensor:
    if isinstance(value, int):
        return tf.constant(value, tf.uint64)
    return tf.cast(value, tf.uint64)


def _shape(dims: Sequence[Any]) -> Any:
    if all(isinstance(dim, int) for dim in dims):
        return tf.constant(list(dims), tf.int32)
    return tf.stack([tf.cast(dim, tf.int32) for dim in dims])
