# SPDX-License-Identifier: Apache-2.0
"""Statistics of samples as they come, in memory that does not grow with them.

The moments are those of `y - shift`, where the shift is the first sample: a
difference of nearby floats is exact, so a small spread around a large mean
keeps its digits in float32. Blocks are merged by Chan's formula:

    mean <- mean + d * n / N,    m2 <- m2 + m2_block + d^2 * (N - n) * n / N

with `d` the difference of the block's mean and the mean so far, `n` the samples
of the block and `N` those with it.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

State = tuple[tf.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class Moments:
    """What was accumulated for one output of one batch of rows.

    Attributes:
        mean: Array [rows, ...].
        variance: Array [rows, ...], unbiased.
        mean_entropy: Array, for classes. Mean over samples of the entropy.
        vote_counts: Array, for classes. Samples in which a class was the
            likeliest.
        sampled_variance: Array [rows, ...], the part of the variance that was
            sampled, if that is not all of it.
    """

    mean: Any
    variance: Any
    mean_entropy: Any = None
    vote_counts: Any = None
    sampled_variance: Any = None


def start(samples: tf.Tensor, task: str) -> State:
    """Returns the state after a first block of samples.

    Args:
        samples: Tensor [rows, samples, ...], float32 or float64.
        task: `"regression"`, `"classification"` or `"binary"`.

    Returns:
        Count, shift, mean, m2, and for classes: sum of entropies, votes.
    """
    program, _ = _programs(len(samples.shape), samples.dtype, task)
    return tuple(program(samples))


def advance(state: State, samples: tf.Tensor, task: str) -> State:
    """Returns the state after one more block of samples."""
    _, program = _programs(len(samples.shape), samples.dtype, task)
    return tuple(program(samples, *state))


@functools.cache
def _programs(rank: int, dtype: tf.DType, task: str) -> tuple[Any, Any]:
    """Compiles `start` and `advance`, for any sizes."""

    def begin(samples: tf.Tensor) -> list[tf.Tensor]:
        return first_block(samples, task)

    def go_on(samples: tf.Tensor, *state: tf.Tensor) -> list[tf.Tensor]:
        return next_block(state, samples, task)

    samples = tf.TensorSpec([None] * rank, dtype)
    first = tf.function(begin, autograph=False).get_concrete_function(samples)
    state = [tf.TensorSpec(x.shape, x.dtype) for x in first.structured_outputs]
    following = tf.function(go_on, autograph=False)
    return first, following.get_concrete_function(samples, *state)


def first_block(samples: tf.Tensor, task: str) -> list[tf.Tensor]:
    """Computes what `start` returns, for use inside a program."""
    shift = samples[:, 0]
    count, mean, m2 = _block(samples, shift)
    return [count, shift, mean, m2, *_class_sums(samples, task)]


def next_block(
    state: Sequence[tf.Tensor], samples: tf.Tensor, task: str
) -> list[tf.Tensor]:
    """Computes what `advance` returns, for use inside a program."""
    count, shift, mean, m2, *sums = state
    block_count, block_mean, block_m2 = _block(samples, shift)
    total = count + block_count
    delta = block_mean - mean
    share = block_count / total
    mean += delta * share
    m2 += block_m2 + delta * delta * (count * share)
    more = _class_sums(samples, task)
    sums = [a + b for a, b in zip(sums, more, strict=True)]
    return [total, shift, mean, m2, *sums]


def take(state: State, rows: Any) -> State:
    """Returns the state of some of the rows, by their indexes."""
    count, *of_rows = state
    return (count, *(tf.gather(part, rows) for part in of_rows))


def finish(state: State) -> Moments:
    """Returns the moments that a state holds."""
    count, shift, mean, m2, *sums = (np.asarray(part) for part in state)
    dtype = shift.dtype
    exact = shift.astype(np.float64) + mean
    moments = (exact.astype(dtype), (m2 / (count - 1)).astype(dtype))
    if not sums:
        return Moments(*moments)
    entropies, votes = sums
    return Moments(*moments, (entropies / count).astype(dtype), votes)


def _block(
    samples: tf.Tensor, shift: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the number of samples, and mean and m2 of their deviations."""
    deviations = samples - shift[:, tf.newaxis]
    count = tf.cast(tf.shape(samples)[1], samples.dtype)
    mean = tf.reduce_mean(deviations, axis=1)
    centred = deviations - mean[:, tf.newaxis]
    return count, mean, tf.reduce_sum(centred * centred, axis=1)


def _class_sums(samples: tf.Tensor, task: str) -> Sequence[tf.Tensor]:
    """Returns sums over samples of the entropy, in float64, and of votes."""
    if task == "regression":
        return ()
    if task == "classification":
        entropies = -tf.reduce_sum(_xlogx(samples), axis=-1)
        classes = tf.shape(samples)[-1]
        ballots = tf.one_hot(
            tf.argmax(samples, axis=-1), classes, dtype=tf.int32
        )
    else:
        entropies = -(_xlogx(samples) + _xlogx(1 - samples))
        ballots = tf.cast(samples >= 0.5, tf.int32)
    return (
        tf.reduce_sum(tf.cast(entropies, tf.float64), axis=1),
        tf.reduce_sum(ballots, axis=1),
    )


def _xlogx(x: tf.Tensor) -> tf.Tensor:
    return tf.math.xlogy(x, x)
