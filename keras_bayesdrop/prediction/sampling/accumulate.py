# SPDX-License-Identifier: Apache-2.0
"""Accumulates statistics of samples in memory that does not grow with them.

The moments are those of `y - shift`, where the shift is the first sample: a
difference of nearby floats is exact, so a small spread around a large mean
keeps its digits in float32. Blocks are merged by Chan's formula:

    mean <- mean + d * n / N,    m2 <- m2 + m2_block + d^2 * (N - n) * n / N

with `d` the difference of the block's mean and the mean so far, `n` the samples
of the block and `N` those with it.

Squares of finite float32 numbers may leave the range of float32: those of 1e25
are infinite there, those of 1e-25 are zero. For numbers (not for probabilities)
mean and m2 are kept in float64. They are computed in float32 wherever that
holds them, and once more in float64 for the elements where it does not.

For balanced draws the means of blocks are kept too (`block_means`). Their
squares add up to less than m2, and count beside it only: they are right in
float32 wherever m2 is.
"""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.compiled import compiled
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.sampling import block_means
from keras_bayesdrop.predictive.quantities import block_moments
from keras_bayesdrop.predictive.quantities import has_block_variance
from keras_bayesdrop.predictive.samples import fit_type as fit_type
from keras_bayesdrop.predictive.samples import holds

State = tuple[tf.Tensor, ...]

# Sums of squares within these are right in float32: no term has overflowed, and
# terms that were flushed to zero (below 2^-126) are below their rounding.
_SMALLEST_M2 = 2.0**-100
_LARGEST_M2 = 2.0**120
# Tasks of numbers, which may have any size.
_NUMBERS = ("regression", "heteroscedastic")
# Tasks of one probability per class.
_CLASSES = ("classification", "noisy_logits")


@dataclasses.dataclass(frozen=True)
class SampleMoments:
    """The moments of one output for some rows.

    Attributes:
        mean: Array [rows, ...].
        variance: Array [rows, ...], unbiased. Of the type of the mean, or
            float64 if that type does not hold it.
        mean_entropy: Array, for classes. Mean over samples of the entropy.
        vote_counts: Array, for classes. Samples in which a class was the
            likeliest.
        sampled_variance: Array [rows, ...], the part of the variance that was
            sampled, if that is not all of it.
        noise_variance: Array [rows, ...], mean over samples of the variance
            of learned noise.
        mean_variance: Array [rows, ...], of balanced draws: the variance of
            the mean, unbiased.
    """

    mean: Any
    variance: Any
    mean_entropy: Any = None
    vote_counts: Any = None
    sampled_variance: Any = None
    noise_variance: Any = None
    mean_variance: Any = None


def start(
    samples: tf.Tensor, task: str, *noise: tf.Tensor, balanced: bool = False
) -> State:
    """Returns the state after a first block of samples.

    Args:
        samples: Tensor [rows, samples, ...], float32 or float64.
        task: The task of a head.
        *noise: For `"heteroscedastic"`, the variances of the noise, a tensor
            like the samples.
        balanced: Whether the draws are balanced in blocks of 16 samples.

    Returns:
        Count, shift, mean and m2 (both float64 for numbers), of balanced draws
        the parts of `block_means`, and for classes: sum of entropies, votes;
        for learned noise: sum of its variances.
    """
    program, _ = _programs(len(samples.shape), samples.dtype, task, balanced)
    return tuple(program(samples, *noise))


def advance(
    state: State,
    samples: tf.Tensor,
    task: str,
    *noise: tf.Tensor,
    balanced: bool = False,
) -> State:
    """Returns the state after one more block of samples."""
    _, program = _programs(len(samples.shape), samples.dtype, task, balanced)
    return tuple(program(samples, *noise, *state))


@functools.cache
def _programs(
    rank: int, dtype: tf.DType, task: str, balanced: bool
) -> tuple[Any, Any]:
    """Compiles `start` and `advance`, for any sizes."""
    count = 2 if task == "heteroscedastic" else 1

    def begin(*blocks: tf.Tensor) -> list[tf.Tensor]:
        samples, *noise = blocks
        return first_block(samples, task, *noise, balanced=balanced)

    def go_on(*tensors: tf.Tensor) -> list[tf.Tensor]:
        (samples, *noise), state = tensors[:count], tensors[count:]
        return next_block(state, samples, task, *noise, balanced=balanced)

    blocks = [tf.TensorSpec([None] * rank, dtype)] * count
    first = compiled(begin, blocks)
    outputs = first.function.structured_outputs
    state = [tf.TensorSpec(x.shape, x.dtype) for x in outputs]
    return first, compiled(go_on, [*blocks, *state])


def first_block(
    samples: tf.Tensor, task: str, *noise: tf.Tensor, balanced: bool = False
) -> list[tf.Tensor]:
    """Computes what `start` returns, for use inside a program."""
    shift = samples[:, 0]

    def moments(values: tf.Tensor, origin: tf.Tensor) -> list[tf.Tensor]:
        blocks = block_means.start(values, origin) if balanced else []
        return [*_block(values, origin)[1:], *blocks]

    count = tf.cast(tf.shape(samples)[1], samples.dtype)
    quick: Sequence[tf.Tensor] = moments(samples, shift)
    if _is_widened(samples.dtype, task):
        quick = _widened(
            quick,
            lambda: _moved(samples, shift),
            lambda: moments(_wide(samples), _wide(shift)),
        )
    return [count, shift, *quick, *_sums(samples, task, *noise)]


def next_block(
    state: Sequence[tf.Tensor],
    samples: tf.Tensor,
    task: str,
    *noise: tf.Tensor,
    balanced: bool = False,
) -> list[tf.Tensor]:
    """Computes what `advance` returns, for use inside a program."""
    count, shift, *rest = state
    old, sums = apart(rest, balanced)
    dtype = samples.dtype

    def moments(
        values: tf.Tensor, origin: tf.Tensor, old: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        block_count, block_mean, block_m2 = _block(values, origin)
        before = tf.cast(count, values.dtype)
        share = block_count / (before + block_count)
        mean, m2, *blocks = old
        merged = _merged(mean, m2, block_mean, block_m2, share, before)
        if balanced:
            blocks = block_means.advance(blocks, values, origin, count)
        return [*merged, *blocks]

    quick: Sequence[tf.Tensor] = moments(
        samples, shift, [tf.cast(each, dtype) for each in old]
    )
    if _is_widened(dtype, task):
        quick = _widened(
            quick,
            lambda: _moved(samples, shift) | (old[0] != 0) | (old[1] != 0),
            lambda: moments(_wide(samples), _wide(shift), old),
        )
    more = _sums(samples, task, *noise)
    sums = [a + b for a, b in zip(sums, more, strict=True)]
    total = count + tf.cast(tf.shape(samples)[1], dtype)
    return [total, shift, *quick, *sums]


def apart(
    rest: Sequence[Any], balanced: bool
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Returns moments and sums of a state, without count and shift."""
    size = 2 + block_means.PARTS * balanced
    return rest[:size], rest[size:]


def _is_widened(dtype: tf.DType, task: str) -> bool:
    """Returns whether moments have a wider type than the samples."""
    return bool(dtype == tf.float32 and task in _NUMBERS)


def _merged(
    mean: tf.Tensor,
    m2: tf.Tensor,
    block_mean: tf.Tensor,
    block_m2: tf.Tensor,
    share: tf.Tensor,
    count: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and m2 with those of a block, by Chan's formula."""
    delta = block_mean - mean
    return (
        mean + delta * share,
        m2 + (block_m2 + delta * delta * (count * share)),
    )


def _widened(
    quick: Sequence[tf.Tensor],
    vary: Callable[[], tf.Tensor],
    compute: Callable[[], Sequence[tf.Tensor]],
) -> Sequence[tf.Tensor]:
    """Returns moments in float64, right for elements of any size.

    Args:
        quick: Mean, m2 and perhaps the parts of `block_means`, as computed in
            float32, [rows, ...] each.
        vary: Tells which elements have samples that differ.
        compute: Computes the same in float64, for all elements.
    """
    _, m2, *_ = quick
    # A comparison with NaN is false, so NaN is out of range.
    in_range = (m2 >= _SMALLEST_M2) & (m2 <= _LARGEST_M2)
    kept = [_wide(each) for each in quick]

    def choose() -> Any:
        # Elements that do not vary have an m2 of zero, which is right.
        wrong = ~in_range & vary()
        return tf.cond(
            tf.reduce_any(wrong),
            lambda: [
                tf.where(wrong, right, near)
                for right, near in zip(compute(), kept, strict=True)
            ],
            lambda: kept,
        )

    moments = tf.cond(tf.reduce_all(in_range), lambda: kept, choose)
    return [tf.ensure_shape(x, m2.shape) for x in moments]


def _moved(samples: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Returns which elements differ from the shift in any sample."""
    return tf.reduce_any(samples != shift[:, tf.newaxis], axis=1)


def take(state: State, rows: Any) -> State:
    """Returns the state of some of the rows, by their indexes."""
    count, *of_rows = state
    return (count, *(tf.gather(part, rows) for part in of_rows))


def finish(state: State, balanced: bool = False) -> SampleMoments:
    """Returns the moments that a state holds."""
    count, shift, *rest = (np.asarray(part) for part in state)
    (mean, m2, *blocks), sums = apart(rest, balanced)
    dtype = shift.dtype
    exact = shift.astype(np.float64) + mean
    variance, mean_variance = _variance(m2, count, dtype), None
    if balanced:
        number = int(count)
        mean_variance = variance.astype(np.float64) / number
        if has_block_variance(number):
            # Not finite: `check` refuses it.
            with np.errstate(over="ignore", invalid="ignore"):
                exact_variance, mean_variance = block_moments(
                    m2, blocks, number
                )
            variance = fit_type(exact_variance, dtype)
        mean_variance = fit_type(mean_variance, dtype)
    moments = SampleMoments(
        exact.astype(dtype), variance, mean_variance=mean_variance
    )
    if not sums:
        return moments
    if len(sums) == 1:
        noise = (sums[0] / count).astype(dtype)
        return dataclasses.replace(moments, noise_variance=noise)
    entropies, votes = sums
    return dataclasses.replace(
        moments,
        mean_entropy=(entropies / count).astype(dtype),
        vote_counts=votes,
    )


def check(moments: SampleMoments, rows: Any) -> None:
    """Raises if moments of the outputs are not finite.

    Args:
        moments: The moments.
        rows: Index in `x` of each row, for the message.
    """
    input_data.check_moments(
        moments.mean, moments.variance, rows, moments.noise_variance
    )


def _variance(m2: Any, count: Any, dtype: Any) -> Any:
    if m2.dtype == dtype:
        return (m2 / (count - 1)).astype(dtype)
    exact = m2 / (count.astype(np.float64) - 1)
    fits = holds(m2, dtype) & holds(exact, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = (m2.astype(dtype) / (count - 1)).astype(dtype)
    return narrow if fits.all() else np.where(fits, narrow, exact)


def _block(
    samples: tf.Tensor, shift: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the number of samples, and mean and m2 of their deviations."""
    deviations = samples - shift[:, tf.newaxis]
    count = tf.cast(tf.shape(samples)[1], samples.dtype)
    mean = tf.reduce_mean(deviations, axis=1)
    centred = deviations - mean[:, tf.newaxis]
    return count, mean, tf.reduce_sum(centred * centred, axis=1)


def _sums(
    samples: tf.Tensor, task: str, *noise: tf.Tensor
) -> Sequence[tf.Tensor]:
    """Returns what is summed over samples, in float64 or as counts.

    For classes the entropy and votes; the variances of learned noise.
    """
    if task in _NUMBERS:
        return [tf.reduce_sum(_wide(each), axis=1) for each in noise]
    if task in _CLASSES:
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


def _wide(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float64)


def _xlogx(x: tf.Tensor) -> tf.Tensor:
    return tf.math.xlogy(x, x)
