# SPDX-License-Identifier: Apache-2.0
"""Propagates moments through noise on units.

Noise of every family is affine in the unit that it perturbs, y = A x + B. The
pair (A, B) depends on the random word alone:

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
from keras_bayesdrop.moments.outcome import Factor
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.noise import AdditiveGaussian
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import LearnedBernoulli
from keras_bayesdrop.noise import LearnedGaussian
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import Noise

# Number of words, evenly spaced, at which noise without a closed form is
# evaluated.
_NUM_WORDS = 4096


@dataclasses.dataclass(frozen=True)
class AffineMoments:
    """Moments of the factor A and the summand B of a noise.

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
        rate: Probability of the pair `dropped`.
        kept: Factor and summand of a unit that is kept.
        dropped: Factor and summand of a unit that is dropped.
    """

    rate: Any
    kept: tuple[Any, Any]
    dropped: tuple[Any, Any]


def has_two_points(noise: Noise) -> bool:
    """Returns True if factor and summand of a noise are one of two pairs."""
    return isinstance(noise, (Bernoulli, LearnedBernoulli, Alpha))


def two_points_of(noise: Noise) -> TwoPoints:
    """Returns the two pairs of factor and summand, in float64."""
    if isinstance(noise, Bernoulli):
        return TwoPoints(noise.rate, (1.0 / noise.normalizer, 0.0), (0.0, 0.0))
    if isinstance(noise, LearnedBernoulli):
        _, scale = noise.op_settings()
        return TwoPoints(1.0 - 1.0 / scale, (scale, 0.0), (0.0, 0.0))
    assert isinstance(noise, Alpha)
    # The smallest word drops the unit, the largest keeps it.
    words = tf.constant([0, 2**32 - 1], tf.uint32)
    summand = noise.apply(tf.zeros([2], tf.float64), words)
    factor = noise.apply(tf.ones([2], tf.float64), words) - summand
    return TwoPoints(
        noise.rate, (factor[1], summand[1]), (factor[0], summand[0])
    )


def affine_moments(noise: Noise, dtype: Any) -> AffineMoments:
    """Returns the moments of A and B, in closed form where there is one."""
    if isinstance(noise, Multiplicative):
        return _multiplicative(noise)
    if isinstance(noise, LearnedBernoulli):
        threshold, scale = noise.op_settings()
        del threshold
        return AffineMoments(1.0, tf.cast(scale - 1.0, dtype))
    if isinstance(noise, LearnedGaussian):
        return AffineMoments(1.0, tf.cast(tf.square(noise.stddev()), dtype))
    if isinstance(noise, AdditiveGaussian):
        return AffineMoments(summand_variance=noise.stddev**2)
    if isinstance(noise, Alpha):
        # The smallest word drops the unit, the largest keeps it.
        return _by_words(
            noise, dtype, [0, 2**32 - 1], [noise.rate, 1 - noise.rate]
        )
    words = (np.arange(_NUM_WORDS) + 0.5) * (2.0**32 / _NUM_WORDS)
    return _by_words(noise, dtype, words, np.full(_NUM_WORDS, 1 / _NUM_WORDS))


def _multiplicative(noise: Multiplicative) -> AffineMoments:
    """Returns the moments of a factor, if they are finite."""
    scale = 1.0 / noise.normalizer
    mean, variance = noise.mean * scale, noise.variance * scale**2
    if not (math.isfinite(mean) and math.isfinite(variance)):
        raise PlanError(
            f"Moments cannot be propagated through the noise {noise!r}: it "
            "has no finite variance. Expected noise of finite variance, or "
            f"method='sampling'. Received: mean={noise.mean:g}, "
            f"variance={noise.variance:g}"
        )
    return AffineMoments(mean, variance)


def _by_words(
    noise: Noise, dtype: Any, words: Any, shares: Any
) -> AffineMoments:
    """Returns the moments over words of unequal shares."""
    words = tf.constant(np.asarray(words, np.float64).astype(np.uint32))
    shares = tf.constant(np.asarray(shares, np.float64))
    summand = noise.apply(tf.zeros_like(shares), words)
    factor = noise.apply(tf.ones_like(shares), words) - summand

    def mean(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(shares * values)

    a, b = factor - mean(factor), summand - mean(summand)
    return AffineMoments(
        *(
            tf.cast(mean(each), dtype)
            for each in (factor, a * a, summand, b * b, a * b)
        )
    )


def perturb(noise: Noise, noise_shape: Any, x: MeanVariance) -> Outcome:
    """Propagates moments through a noise site.

    Args:
        noise: The distribution.
        noise_shape: Shape of the draws with the batch axis, `None` for the
            shape of `x`.
        x: Moments of the value that the noise perturbs.
    """
    a = affine_moments(noise, x.mean.dtype)
    mean = x.mean
    terms = [(a.factor_variance, tf.square(mean)), (2.0 * a.covariance, mean)]
    if x.variance is not None:
        terms.append((a.factor_variance + a.factor**2, x.variance))
    moments = MeanVariance(
        _sum([(a.factor, mean)], a.summand), _sum(terms, a.summand_variance)
    )
    factor = Factor(a.factor * tf.ones_like(mean[:1]))
    if not one_for_all(noise_shape, mean.shape):
        return Outcome(moments, (factor,))

    def joint(before: tf.Tensor) -> tuple[MeanVariance, tf.Tensor]:
        outer = mean[:, :, tf.newaxis] * mean[:, tf.newaxis, :]
        both = mean[:, :, tf.newaxis] + mean[:, tf.newaxis, :]
        return moments, (
            (a.factor_variance + a.factor**2) * before
            + a.factor_variance * outer
            + a.covariance * both
            + a.summand_variance
        )

    return Outcome(moments, (factor,), joint, common=True)


def scaled(noise: Noise, x: MeanVariance) -> Outcome:
    """Propagates moments through noise that is off, and scales its input."""
    factor = noise.expected(tf.ones_like(x.mean[:1]))
    variance = None if x.certain else x.spread() * tf.square(factor)
    return Outcome(
        MeanVariance(x.mean * factor, variance), (Factor(factor),), linear=True
    )


def one_for_all(noise_shape: Any, shape: Any) -> bool:
    """Returns True if all units of a row [rows, units] share one draw."""
    return (
        len(shape) == 2
        and noise_shape is not None
        and noise_shape[-1] == 1
        and shape[-1] != 1
    )


def _sum(terms: Sequence[tuple[Any, tf.Tensor]], constant: Any) -> tf.Tensor:
    """Returns a weighted sum, skipping factors of 1 and terms of 0."""

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
