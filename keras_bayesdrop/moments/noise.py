# SPDX-License-Identifier: Apache-2.0
"""Moments of what noise does to a unit.

Noise of every family is affine in the unit that it perturbs, y = A x + B, with
a pair (A, B) that depends on the random word alone:

    E y   = E A * E x + E B
    Var y = Var A * (Var x + E x^2) + (E A)^2 Var x + 2 Cov(A, B) E x + Var B
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.moments.moments import Factor
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome
from keras_bayesdrop.noise import AdditiveGaussian
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import LearnedBernoulli
from keras_bayesdrop.noise import LearnedGaussian
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import Noise

# Words at which a noise without a closed form is looked at: midpoints of equal
# parts of all words.
_PARTS = 4096


@dataclasses.dataclass(frozen=True)
class Affine:
    """Moments of the factor and the summand of a noise.

    Attributes:
        factor: E A.
        factor_variance: Var A.
        summand: E B.
        summand_variance: Var B.
        covariance: Cov(A, B).
    """

    factor: Any = 1.0
    factor_variance: Any = 0.0
    summand: Any = 0.0
    summand_variance: Any = 0.0
    covariance: Any = 0.0


@dataclasses.dataclass(frozen=True)
class TwoPoints:
    """A noise whose factor and summand are one of two pairs.

    Attributes:
        rate: Probability of the second pair.
        kept: Factor and summand else.
        dropped: Factor and summand with probability `rate`.
    """

    rate: Any
    kept: tuple[Any, Any]
    dropped: tuple[Any, Any]


def has_two_points(noise: Noise) -> bool:
    """Whether a noise does one of two things to a unit."""
    return isinstance(noise, (Bernoulli, LearnedBernoulli, Alpha))


def two_points_of(noise: Noise) -> TwoPoints:
    """Returns the two things that a noise does, in float64."""
    if isinstance(noise, Bernoulli):
        return TwoPoints(noise.rate, (1.0 / noise.normalizer, 0.0), (0.0, 0.0))
    if isinstance(noise, LearnedBernoulli):
        _, scale = noise.op_settings()
        return TwoPoints(1.0 - 1.0 / scale, (scale, 0.0), (0.0, 0.0))
    assert isinstance(noise, Alpha)
    # Dropped by the first word of all, kept by the last.
    words = tf.constant([0, 2**32 - 1], tf.uint32)
    summand = noise.apply(tf.zeros([2], tf.float64), words)
    factor = noise.apply(tf.ones([2], tf.float64), words) - summand
    return TwoPoints(
        noise.rate, (factor[1], summand[1]), (factor[0], summand[0])
    )


def affine_of(noise: Noise, dtype: Any) -> Affine:
    """Returns the moments of a noise, in closed form where there is one."""
    if isinstance(noise, Multiplicative):
        return _multiplicative(noise)
    if isinstance(noise, LearnedBernoulli):
        threshold, scale = noise.op_settings()
        del threshold
        return Affine(1.0, tf.cast(scale - 1.0, dtype))
    if isinstance(noise, LearnedGaussian):
        return Affine(1.0, tf.cast(tf.square(noise.stddev()), dtype))
    if isinstance(noise, AdditiveGaussian):
        return Affine(summand_variance=noise.stddev**2)
    if isinstance(noise, Alpha):
        # Dropped by the first word of all, kept by the last.
        return _by_words(
            noise, dtype, [0, 2**32 - 1], [noise.rate, 1 - noise.rate]
        )
    parts = (np.arange(_PARTS) + 0.5) * (2.0**32 / _PARTS)
    return _by_words(noise, dtype, parts, np.full(_PARTS, 1 / _PARTS))


def _multiplicative(noise: Multiplicative) -> Affine:
    """Returns the moments of a factor, or raises if it has none."""
    scale = 1.0 / noise.normalizer
    mean, variance = noise.mean * scale, noise.variance * scale**2
    if not (math.isfinite(mean) and math.isfinite(variance)):
        raise PlanError(
            f"The noise {noise!r} has no variance, so moments cannot be taken "
            "through it. Expected noise of finite variance, or "
            f"method='sampling'. Received: mean={noise.mean:g}, "
            f"variance={noise.variance:g}"
        )
    return Affine(mean, variance)


def _by_words(noise: Noise, dtype: Any, words: Any, shares: Any) -> Affine:
    """Returns the moments over some words, each for a share of all."""
    words = tf.constant(np.asarray(words, np.float64).astype(np.uint32))
    shares = tf.constant(np.asarray(shares, np.float64))
    summand = noise.apply(tf.zeros_like(shares), words)
    factor = noise.apply(tf.ones_like(shares), words) - summand

    def mean(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(shares * values)

    a, b = factor - mean(factor), summand - mean(summand)
    return Affine(
        *(
            tf.cast(mean(each), dtype)
            for each in (factor, a * a, summand, b * b, a * b)
        )
    )


def perturb(noise: Noise, noise_shape: Any, x: Moments) -> Outcome:
    """Takes moments through a noise site.

    Args:
        noise: The distribution.
        noise_shape: Its shape with the batch axis, `None` for that of `x`.
        x: What it perturbs.
    """
    a = affine_of(noise, x.mean.dtype)
    mean = x.mean
    terms = [(a.factor_variance, tf.square(mean)), (2.0 * a.covariance, mean)]
    if x.variance is not None:
        terms.append((a.factor_variance + a.factor**2, x.variance))
    made = Moments(
        _sum([(a.factor, mean)], a.summand), _sum(terms, a.summand_variance)
    )
    factor = Factor(a.factor * tf.ones_like(mean[:1]))
    if not one_for_all(noise_shape, mean.shape):
        return Outcome(made, (factor,))

    def joint(before: tf.Tensor) -> tuple[Moments, tf.Tensor]:
        """One draw for all units of a row, so that all vary together."""
        outer = mean[:, :, tf.newaxis] * mean[:, tf.newaxis, :]
        both = mean[:, :, tf.newaxis] + mean[:, tf.newaxis, :]
        return made, (
            (a.factor_variance + a.factor**2) * before
            + a.factor_variance * outer
            + a.covariance * both
            + a.summand_variance
        )

    return Outcome(made, (factor,), joint, common=True)


def one_for_all(noise_shape: Any, shape: Any) -> bool:
    """Whether all units of a row [rows, units] have one draw."""
    return (
        len(shape) == 2
        and noise_shape is not None
        and noise_shape[-1] == 1
        and shape[-1] != 1
    )


def _sum(terms: Sequence[tuple[Any, tf.Tensor]], constant: Any) -> tf.Tensor:
    """Returns a weighted sum, without what is known to change nothing."""

    def is_number(value: Any, number: float) -> bool:
        return isinstance(value, (int, float)) and value == number

    parts = [
        tensor if is_number(factor, 1.0) else factor * tensor
        for factor, tensor in terms
        if not is_number(factor, 0.0)
    ]
    if not parts:
        parts = [tf.zeros_like(terms[0][1])]
    total = functools.reduce(operator.add, parts)
    return total if is_number(constant, 0.0) else total + constant
