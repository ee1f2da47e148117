# SPDX-License-Identifier: Apache-2.0
"""Draws the noise of logits, and averages the softmax over it.

    f, s --draws of e--> mean over e of softmax(f + exp(s / 2) * e)

The draws obey the counter contract: pair `k` of output `n` has the site number

    FIRST_SITE + n * PAIRS + k

behind every noise site that a model can have. Each pair is `e` and `-e`. The
softmax rises with one logit and falls with the others, so the two are never
positively correlated, and a pair is at least as exact as two draws.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.dims import dims_from
from keras_bayesdrop._core.logit_draws import MOST_DRAWS
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.random.philox import words_to_normal

FIRST_SITE = 2**30
PAIRS = MOST_DRAWS // 2


@dataclasses.dataclass(frozen=True)
class LogitNoise:
    """The noise of the logits of one result.

    Attributes:
        sources: Numbers of the outputs: one with logits and log variances on
            its last axis, or one with each.
        num_draws: How many draws to average over.
        limit: Log variances are clipped to `[-limit, limit]`.
    """

    sources: tuple[int, ...]
    num_draws: int
    limit: float

    def average(self, outputs: Sequence[tf.Tensor], draws: Draws) -> tf.Tensor:
        """Returns the probabilities of the classes.

        Args:
            outputs: All outputs of the model, [rows, samples, ...].
            draws: The rows and samples.

        Returns:
            Tensor [rows, samples, ..., classes], float32 or float64.
        """
        taken = [floating(outputs[number]) for number in self.sources]
        if len(taken) == 1:
            taken = list(tf.split(taken[0], 2, axis=-1))
        logits, log_variance = taken
        clipped = tf.clip_by_value(log_variance, -self.limit, self.limit)
        scale = tf.exp(0.5 * tf.cast(clipped, logits.dtype))
        first = tf.constant(FIRST_SITE + self.sources[0] * PAIRS, tf.int64)
        dims = dims_from(logits, 2)

        def add_pair(pair: tf.Tensor, total: tf.Tensor) -> Any:
            words = draws.words(first + pair, None, dims)
            noise = scale * words_to_normal(words, logits.dtype)
            two = tf.nn.softmax(logits + noise) + tf.nn.softmax(logits - noise)
            return pair + 1, total + two

        # One pair at a time: memory does not grow with the draws.
        _, total = tf.while_loop(
            lambda pair, total: pair < self.num_draws // 2,
            add_pair,
            (tf.constant(0, tf.int64), tf.zeros_like(logits)),
            shape_invariants=(tf.TensorShape([]), logits.shape),
            parallel_iterations=1,
        )
        return total / self.num_draws


def with_logit_noise(
    outputs: Sequence[tf.Tensor], noises: Sequence[LogitNoise], draws: Draws
) -> list[tf.Tensor]:
    """Returns outputs with probabilities in the place of noisy logits.

    Args:
        outputs: All outputs of the model, [rows, samples, ...].
        noises: The noise of each result that has some.
        draws: The rows and samples.
    """
    drawn = list(outputs)
    for noise in noises:
        drawn[noise.sources[0]] = noise.average(outputs, draws)
    return drawn


def without_samples(
    outputs: Sequence[tf.Tensor], noises: Sequence[LogitNoise], seed: tf.Tensor
) -> list[tf.Tensor]:
    """Returns the same for a network that has no other noise.

    Its draws are those of sample 0 and of shared masks.

    Args:
        outputs: All outputs of the model, [rows, ...].
        noises: The noise of each result that has some.
        seed: Scalar uint64.
    """
    if not noises:
        return list(outputs)
    draws = Draws(
        seed=seed,
        first_sample=0,
        num_samples=1,
        num_blocks=1,
        first_row=0,
        num_rows=1,
        shared=True,
        balanced=False,
    )
    blocks = [output[:, tf.newaxis] for output in outputs]
    return [block[:, 0] for block in with_logit_noise(blocks, noises, draws)]


def floating(outputs: tf.Tensor) -> tf.Tensor:
    """Returns outputs as float32 or float64."""
    if outputs.dtype in (tf.float32, tf.float64):
        return outputs
    return tf.cast(outputs, tf.float32)
