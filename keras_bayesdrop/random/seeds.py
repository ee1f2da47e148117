# SPDX-License-Identifier: Apache-2.0
"""Seeds that follow from another seed."""

from typing import Any

import tensorflow as tf

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15
_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def member_seed(seed: int, number: int) -> int:
    """Returns the seed of a member of an ensemble.

    It is output number `number` of the generator SplitMix64 that starts at
    `seed` (modulo 2^64):

        z = seed + (number + 1) * 0x9E3779B97F4A7C15
        z = (z xor z >> 30) * 0xBF58476D1CE4E5B9
        z = (z xor z >> 27) * 0x94D049BB133111EB
        z xor z >> 31

    For one seed, all numbers have different seeds.

    Args:
        seed: The seed of the ensemble, any integer.
        number: The number of the member, from 0.

    References:
        - [Steele et al., 2014](https://doi.org/10.1145/2660193.2660195).
    """
    z = (seed + (number + 1) * _STEP) & _MASK
    for shift, factor in _FACTORS:
        z = ((z ^ (z >> shift)) * factor) & _MASK
    return z ^ (z >> 31)


def member_key(key: tf.Tensor, number: int) -> tf.Tensor:
    """Returns `member_seed` of a seed that is a scalar uint64 tensor."""

    def mixed(z: tf.Tensor, shift: int) -> tf.Tensor:
        return tf.bitwise.bitwise_xor(
            z, tf.bitwise.right_shift(z, _uint64(shift))
        )

    z = key + _uint64((number + 1) * _STEP & _MASK)
    for shift, factor in _FACTORS:
        z = mixed(z, shift) * _uint64(factor)
    return mixed(z, 31)


def _uint64(value: int) -> Any:
    return tf.constant(value, tf.uint64)
