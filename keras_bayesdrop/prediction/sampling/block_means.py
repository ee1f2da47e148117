# SPDX-License-Identifier: Apache-2.0
"""Accumulates the means of balanced blocks, 16 samples each.

The samples of a block share out the noise, and blocks are independent: the
spread of their means tells how far the mean of all samples may be off. What is
kept are three tensors, whatever the number of samples:

    middle    mean over the whole blocks of their means
    squares   sum over them of (mean of the block - middle)^2
    rest      sum of the samples of the block that is not whole yet

All of them are those of `y - shift`, as in `accumulate`.
"""

from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop._core.choice import SAMPLES_PER_BLOCK

PARTS = 3


def start(samples: tf.Tensor, shift: tf.Tensor) -> list[tf.Tensor]:
    """Returns the parts after the first samples.

    Args:
        samples: Tensor [rows, samples, ...].
        shift: Tensor [rows, ...].
    """
    nothing = tf.zeros_like(shift)
    return advance([nothing] * PARTS, samples, shift, tf.constant(0))


def advance(
    parts: Sequence[tf.Tensor],
    samples: tf.Tensor,
    shift: tf.Tensor,
    count: tf.Tensor,
) -> list[tf.Tensor]:
    """Returns the parts after more samples.

    Args:
        parts: Those so far.
        samples: Tensor [rows, samples, ...], any number of them.
        shift: Tensor [rows, ...].
        count: Scalar, the number of samples before these.
    """
    middle, squares, rest = parts
    size = SAMPLES_PER_BLOCK
    deviations = samples - shift[:, tf.newaxis]
    old_blocks, opened = _divided(tf.cast(count, tf.int32))
    # The first samples belong to the block that is open.
    head = tf.minimum(tf.shape(samples)[1], (size - opened) % size)
    rest = rest + tf.reduce_sum(deviations[:, :head], axis=1)
    closed = tf.cast(opened + head == size, tf.int32)
    whole, _ = _divided(tf.shape(samples)[1] - head)
    tail = head + whole * size
    dims = tf.shape(samples)
    blocks = tf.reshape(
        deviations[:, head:tail],
        tf.concat([[dims[0], whole, size], dims[2:]], axis=0),
    )
    means = tf.concat(
        [rest[:, tf.newaxis][:, :closed] / size, tf.reduce_mean(blocks, 2)],
        axis=1,
    )
    # Chan's formula; without a new block nothing changes.
    new_blocks = closed + whole
    number = tf.cast(tf.maximum(new_blocks, 1), samples.dtype)
    new_middle = tf.reduce_sum(means, axis=1) / number
    centred = means - new_middle[:, tf.newaxis]
    total = tf.cast(tf.maximum(old_blocks + new_blocks, 1), samples.dtype)
    share = tf.cast(new_blocks, samples.dtype) / total
    delta = new_middle - middle
    weight = tf.cast(old_blocks, samples.dtype) * share
    return [
        middle + delta * share,
        squares
        + (tf.reduce_sum(centred * centred, axis=1) + delta * delta * weight),
        rest * tf.cast(1 - closed, samples.dtype)
        + tf.reduce_sum(deviations[:, tail:], axis=1),
    ]


def _divided(samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many whole blocks samples fill, and how many are left."""
    return samples // SAMPLES_PER_BLOCK, samples % SAMPLES_PER_BLOCK
