# SPDX-License-Identifier: Apache-2.0
"""Dropout masks that XLA makes quickly on a CPU.

On a CPU XLA takes some 180 ns for a number of TensorFlow's Philox, which is 40
times what the rest of a training step costs per unit. Here a word is a hash of
its counter, between whose two rounds a second key enters:

    x = counter + key[0]
    x = (x ^ x >> 16) * 0x7feb352d ^ key[1]
    x = (x ^ x >> 15) * 0x846ca68b
    word = x ^ x >> 16

Good enough to drop units in training, and for nothing else. Predictions use
the library's own masks.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

_GOLDEN = 0x9E3779B9  # 2^32 over the golden ratio: spreads consecutive numbers


def mask_words(
    shape: Sequence[int], keys: tf.Tensor, step: tf.Tensor, site: int
) -> tf.Tensor:
    """Makes random words for one training step at one noise site.

    Args:
        shape: Shape of the words.
        keys: uint32 [2]; or [members, 2], for members with words of their own.
        step: Scalar int32, number of the training step.
        site: Number of the noise site.

    Returns:
        uint32 tensor of that shape, or [members, *shape].
    """
    counters = tf.reshape(tf.range(math.prod(shape)), shape)
    here = tf.cast(step, tf.uint32) * _word(_GOLDEN) + _word(site * 0x85EBCA6B)
    one, other = tf.unstack(keys, axis=-1)
    first, second = _mix(one + here, other), _mix(other + here, one)
    each = (*keys.shape[:-1], *(1,) * len(shape))
    return _mix(
        tf.cast(counters, tf.uint32) + tf.reshape(first, each),
        tf.reshape(second, each),
    )


def _mix(x: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    x = _xor(_xor(x, _right(x, 16)) * _word(0x7FEB352D), key)
    x = _xor(x, _right(x, 15)) * _word(0x846CA68B)
    return _xor(x, _right(x, 16))


def _word(value: int) -> tf.Tensor:
    return tf.constant(value % 2**32, tf.uint32)


def _xor(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(a, b)


def _right(x: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(x, _word(bits))
