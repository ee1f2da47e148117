# SPDX-License-Identifier: Apache-2.0
"""The derived quantities of `Predictive`, in TensorFlow.

The formulas are those of `keras_bayesdrop.predictive`. Each quantity is
computed in float64 from rounded moments and rounded once more, as in
`Predictive`: `tests/serving` compares the two.
"""

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.prediction.sampling import accumulate
from keras_bayesdrop.predictive import quantities
from keras_bayesdrop.predictive.base import Quantities
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantities import Arrays
from keras_bayesdrop.predictive.quantities import Summary
from keras_bayesdrop.predictive.select import quantities_of as formulas_of


class _TensorFlow:
    """The functions that formulas need, by TensorFlow."""

    log = staticmethod(tf.math.log)
    sqrt = staticmethod(tf.sqrt)
    maximum = staticmethod(tf.maximum)
    minimum = staticmethod(tf.minimum)
    clip = staticmethod(tf.clip_by_value)

    def wide(self, x: Any) -> tf.Tensor:
        return tf.cast(x, tf.float64)

    def where(self, condition: Any, x: Any, y: float) -> tf.Tensor:
        return tf.where(condition, x, tf.constant(y, x.dtype))

    def sum(self, x: Any) -> tf.Tensor:
        return tf.reduce_sum(x, axis=-1)

    def max(self, x: Any) -> tf.Tensor:
        return tf.reduce_max(x, axis=-1)

    def full_like(self, x: Any, value: Any) -> tf.Tensor:
        return tf.broadcast_to(tf.constant(value, x.dtype), tf.shape(x))


TENSORFLOW: Arrays = _TensorFlow()


@dataclasses.dataclass(frozen=True)
class Statistics:
    """One output of the model, reduced over all samples.

    Attributes:
        formulas: Those of the head of the output.
        num_samples: Number of samples.
        mean: Tensor [rows, ...].
        variance: Tensor [rows, ...], unbiased, of the type of `mean`.
        std: Its root, right where that type does not hold the variance.
        entropies: For classes, the sum of the entropies, float64; or `None`.
        votes: For classes, how often each was the likeliest; or `None`.
        noise: Of learned noise, the mean over samples of its variance.
        within: Of an ensemble, the mean of the variances of its networks.
        between: Of an ensemble, the variance of the means of its networks.
        sampled_std: Of an ensemble, what `mc_error` is made of.
        mean_variance: Of balanced draws, the variance of the mean, float64.
    """

    formulas: Quantities
    num_samples: int
    mean: tf.Tensor
    variance: tf.Tensor
    std: tf.Tensor
    entropies: Any
    votes: Any
    noise: Any = None
    within: Any = None
    between: Any = None
    sampled_std: Any = None
    mean_variance: Any = None

    @property
    def summary(self) -> Summary:
        """The moments, as formulas take them."""
        if self.within is not None:
            return Summary(
                self.mean,
                self.within + self.between,
                self.num_samples,
                all_sampled=False,
                noise_variance=self.noise,
            )
        return Summary(
            self.mean,
            self.variance,
            self.num_samples,
            noise_variance=self.noise,
            mean_variance=self.mean_variance,
        )


def statistics_of(
    state: Sequence[tf.Tensor],
    head: Head | str,
    num_samples: int,
    balanced: bool = False,
) -> Statistics:
    """Reads the state that `prediction.sampling.accumulate` leaves.

    One sample, of a network without noise, has the variance 0.
    """
    _, shift, *rest = state
    (mean, m2, *blocks), sums = accumulate.apart(rest, balanced)
    sums = list(sums)
    formulas = formulas_of(head)
    noise = None
    if formulas.has_learned_noise:
        noise = tf.cast(sums.pop() / num_samples, shift.dtype)
    entropies, votes = sums or (None, None)
    exact = _wide(shift) + _wide(mean)
    degrees = max(1, num_samples - 1)
    variance = tf.cast(m2, shift.dtype) / degrees
    # As `accumulate.finish` does it: float32 where it holds the variance.
    wide = _wide(m2) / degrees
    mean_variance = wide / num_samples if balanced else None
    if balanced and quantities.has_block_variance(num_samples):
        wide, mean_variance = quantities.block_moments(
            m2, blocks, num_samples, TENSORFLOW
        )
        variance = tf.cast(wide, shift.dtype)
    smallest = float(np.finfo(shift.dtype.as_numpy_dtype).tiny)
    held = (variance >= smallest) & (variance < math.inf)
    return Statistics(
        formulas,
        num_samples,
        tf.cast(exact, shift.dtype),
        variance,
        tf.where(held, tf.sqrt(variance), tf.cast(tf.sqrt(wide), shift.dtype)),
        entropies,
        votes,
        noise,
        mean_variance=mean_variance,
    )


def mixed(members: Sequence[Statistics]) -> Statistics:
    """Mixes the statistics of the networks of an ensemble."""
    if len(members) == 1:
        return members[0]
    first, count = members[0], len(members)
    counts = [float(s.num_samples) for s in members]
    means = [s.mean for s in members]
    within = quantities.average(
        [quantities.biased_variance(s.summary, TENSORFLOW) for s in members],
        TENSORFLOW,
    )
    between = quantities.variance_between(means, TENSORFLOW)
    # Per network: the variance of its mean over its samples.
    errors = [
        _wide(s.variance) / samples
        for s, samples in zip(members, counts, strict=True)
    ]
    if all(s.mean_variance is None for s in members):
        wide = quantities.unbiased_mixture(within + between, counts)
    else:
        of_means = [
            error if s.mean_variance is None else s.mean_variance
            for s, error in zip(members, errors, strict=True)
        ]
        points = sum(s.num_samples == 1 for s in members)
        wide = quantities.unbiased_balanced_mixture(
            within + between, of_means, points
        )
        errors = [tf.square(_error(s)) for s in members]
    dtype = first.mean.dtype

    def total_share(name: str) -> Any:
        """Adds up a sum over samples, divided by their number."""
        if getattr(first, name) is None:
            return None
        parts = [
            _wide(getattr(s, name)) / samples
            for s, samples in zip(members, counts, strict=True)
        ]
        return count * quantities.average(parts, TENSORFLOW)

    noise = None
    if first.noise is not None:
        noises = [s.noise for s in members]
        noise = tf.cast(quantities.average(noises, TENSORFLOW), dtype)
    return Statistics(
        first.formulas,
        count,
        tf.cast(quantities.average(means, TENSORFLOW), dtype),
        tf.cast(wide, dtype),
        tf.cast(tf.sqrt(wide), dtype),
        total_share("entropies"),
        total_share("votes"),
        noise,
        within,
        between,
        tf.sqrt(quantities.average(errors, TENSORFLOW)),
    )


def quantiles_of(samples: tf.Tensor, levels: Sequence[float]) -> tf.Tensor:
    """Returns quantiles of samples, linearly interpolated.

    Args:
        samples: Tensor [samples, rows, ...].
        levels: Floats in `[0, 1]`.

    Returns:
        Tensor [rows, levels, ...].
    """
    ordered = tf.sort(samples, axis=0)
    last = tf.shape(samples)[0] - 1
    quantiles = []
    for level in levels:
        place = level * tf.cast(last, tf.float64)
        below = tf.cast(tf.floor(place), tf.int32)
        share = tf.cast(place - tf.floor(place), samples.dtype)
        low, high = ordered[below], ordered[tf.minimum(below + 1, last)]
        quantiles.append(low + share * (high - low))
    return tf.stack(quantiles, axis=1)


def _mean(s: Statistics) -> tf.Tensor:
    return s.mean


def _variance(s: Statistics) -> tf.Tensor:
    return s.variance


def _std(s: Statistics) -> tf.Tensor:
    return s.std


def _mc_error(s: Statistics) -> tf.Tensor:
    return _narrow(_error(s), s)


def _error(s: Statistics) -> tf.Tensor:
    """Returns the standard error of the mean, float64."""
    std = s.std if s.sampled_std is None else s.sampled_std
    return quantities.mc_error(std, s.num_samples, s.mean_variance, TENSORFLOW)


def _aleatoric(s: Statistics) -> tf.Tensor:
    return _narrow(s.formulas.aleatoric(s.summary, TENSORFLOW), s)


def _total(s: Statistics) -> tf.Tensor:
    return s.variance + _aleatoric(s)


def _predictive_entropy(s: Statistics) -> tf.Tensor:
    return _narrow(s.formulas.entropy(s.mean, TENSORFLOW), s)


def _expected_entropy(s: Statistics) -> tf.Tensor:
    return _narrow(s.entropies / s.num_samples, s)


def _mutual_information(s: Statistics) -> tf.Tensor:
    whole = s.formulas.entropy(s.mean, TENSORFLOW)
    part = _wide(_expected_entropy(s))
    return _narrow(quantities.mutual_information(whole, part, TENSORFLOW), s)


def _variation_ratio(s: Statistics) -> tf.Tensor:
    favourite = s.formulas.favourite_votes(
        _wide(s.votes), s.num_samples, TENSORFLOW
    )
    return _narrow(quantities.variation_ratio(favourite, s.num_samples), s)


def _wide(x: Any) -> tf.Tensor:
    return tf.cast(x, tf.float64)


def _narrow(x: tf.Tensor, s: Statistics) -> tf.Tensor:
    """Rounds a result to the type of the mean."""
    return tf.cast(x, s.mean.dtype)


# By the names that `Predictive` has for them.
QUANTITIES: dict[str, Callable[[Statistics], tf.Tensor]] = {
    "mean": _mean,
    "variance": _variance,
    "std": _std,
    "mc_error": _mc_error,
    "epistemic": _variance,
    "aleatoric": _aleatoric,
    "total": _total,
    "predictive_entropy": _predictive_entropy,
    "entropy": _predictive_entropy,
    "expected_entropy": _expected_entropy,
    "mutual_information": _mutual_information,
    "variation_ratio": _variation_ratio,
}
# Those that only probabilities have.
OF_CLASSES = (
    "predictive_entropy",
    "entropy",
    "expected_entropy",
    "mutual_information",
    "variation_ratio",
)


def is_defined(quantity: str, head: Head | str) -> bool:
    """Returns `True` if an output with this head has a quantity."""
    return quantity not in OF_CLASSES or formulas_of(head).has_information
