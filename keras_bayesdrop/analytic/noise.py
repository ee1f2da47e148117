# SPDX-License-Identifier: Apache-2.0
"""Moments of what noise does to a unit.

Noise of every family is affine in the unit that it perturbs, y = A x + B, with
a pair (A, B) that depends on the random word alone:

    E y   = E A * E x + E B
    Var y = Var A * (Var x + E x^2) + (E A)^2 Var x + 2 Cov(A, B) E x + Var B
"""

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.analytic.moments import Factor
from keras_bayesdrop.analytic.moments import Moments
from keras_bayesdrop.analytic.moments import Outcome
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.noise import AdditiveGaussian
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
    return _by_words(noise, dtype)


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


def _by_words(noise: Noise, dtype: Any) -> Affine:
    """Returns the moments over equal parts of all words."""
    parts = np.arange(_PARTS, dtype=np.float64) + 0.5
    words = tf.constant((parts * (2.0**32 / _PARTS)).astype(np.uint32))
    summand = noise.apply(tf.zeros([_PARTS], tf.float64), words)
    factor = noise.apply(tf.ones([_PARTS], tf.float64), words) - summand
    factor_mean, factor_variance = tf.nn.moments(factor, 0)
    summand_mean, summand_variance = tf.nn.moments(summand, 0)
    covariance = tf.reduce_mean(
        (factor - factor_mean) * (summand - summand_mean)
    )
    return Affine(
        *(
            tf.cast(each, dtype)
            for each in (
                factor_mean,
                factor_variance,
                summand_mean,
                summand_variance,
                covariance,
            )
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
    mean, variance = x.mean, x.spread()
    square = tf.square(mean)
    made = Moments(
        a.factor * mean + a.summand,
        a.factor_variance * (variance + square)
        + a.factor**2 * variance
        + 2.0 * a.covariance * mean
        + a.summand_variance,
    )
    factor = Factor(a.factor * tf.ones_like(mean[:1]))
    one_for_all = (
        mean.shape.rank == 2
        and noise_shape is not None
        and noise_shape[-1] == 1
        and mean.shape[-1] != 1
    )
    if not one_for_all:
        return Outcome(made, (factor,))

    def joint(before: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One draw for all units of a row, so that all vary together."""
        outer = mean[:, :, tf.newaxis] * mean[:, tf.newaxis, :]
        both = mean[:, :, tf.newaxis] + mean[:, tf.newaxis, :]
        return made.mean, (
            (a.factor_variance + a.factor**2) * before
            + a.factor_variance * outer
            + a.covariance * both
            + a.summand_variance
        )

    return Outcome(made, (factor,), joint)
