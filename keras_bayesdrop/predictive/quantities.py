# SPDX-License-Identifier: Apache-2.0
"""Formulas of the quantities that follow from accumulated moments.

Each formula is written once, over the few functions of `Arrays`. `Predictive`,
metrics and the tolerance of a prediction use it with NumPy; an exported
SavedModel uses it with TensorFlow. Results are not rounded: a formula that
needs float64 widens its arguments, and its caller casts the result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.choice import SAMPLES_PER_BLOCK

# The weight, in degrees of freedom, that `mc_error` of balanced draws gives to
# the variance of independent ones: see benchmarks/lab/05_balanced_error.py.
_WEIGHT_OF_INDEPENDENT = 4.0
# No two samples of a balanced block are more alike than that.
_LARGEST_RATIO = SAMPLES_PER_BLOCK / (SAMPLES_PER_BLOCK - 1)


class Arrays(Protocol):
    """The functions that a formula needs of an array library."""

    def wide(self, x: Any, /) -> Any:
        """Casts to float64."""

    def log(self, x: Any, /) -> Any:
        """Natural logarithm."""

    def sqrt(self, x: Any, /) -> Any:
        """Square root of an array or a number."""

    def maximum(self, x: Any, y: Any, /) -> Any:
        """The larger of two, element by element."""

    def minimum(self, x: Any, y: Any, /) -> Any:
        """The smaller of two, element by element."""

    def where(self, condition: Any, x: Any, y: float, /) -> Any:
        """Takes `x` where a condition holds, else the number `y`."""

    def clip(self, x: Any, low: float, high: float, /) -> Any:
        """Cuts off at a lower and an upper bound."""

    def sum(self, x: Any, /) -> Any:
        """Sum over the last axis."""

    def max(self, x: Any, /) -> Any:
        """Largest along the last axis."""

    def full_like(self, x: Any, value: Any, /) -> Any:
        """An array of the shape and type of `x`, filled with a number.

        Or with an array of numbers, one for each entry of the last axis.
        """


class _NumPy:
    """The functions of `Arrays`, by NumPy."""

    log = staticmethod(np.log)
    sqrt = staticmethod(np.sqrt)
    maximum = staticmethod(np.maximum)
    minimum = staticmethod(np.minimum)
    clip = staticmethod(np.clip)
    full_like = staticmethod(np.full_like)

    def wide(self, x: Any) -> Any:
        return np.asarray(x, np.float64)

    def where(self, condition: Any, x: Any, y: float) -> Any:
        return np.where(condition, x, y)

    def sum(self, x: Any) -> Any:
        return np.asarray(x.sum(axis=-1))

    def max(self, x: Any) -> Any:
        return x.max(axis=-1)


NUMPY: Arrays = _NumPy()


@dataclass(frozen=True)
class Summary:
    """The moments of one output over its Monte Carlo samples.

    Attributes:
        mean: Array `[rows, outputs]`.
        variance: Array `[rows, outputs]`, unbiased.
        num_samples: Number `T` of samples, or an integer array that
            broadcasts to `mean`.
        all_sampled: Whether all noise was sampled, none taken in closed form.
        sampled_variance: The part of the variance that was sampled, if that
            is some but not all of it.
        noise_variance: Array `[rows, outputs]`, the mean over the samples of
            the variance of the noise, if the model predicts it.
        mean_variance: Array `[rows, outputs]`, the variance of the mean over
            other draws, if that is not the sampled variance over `T`.
    """

    mean: Any
    variance: Any
    num_samples: Any
    all_sampled: bool = True
    sampled_variance: Any = None
    noise_variance: Any = None
    mean_variance: Any = None


def mc_error(
    std: Any, num_samples: Any, mean_variance: Any = None, xp: Arrays = NUMPY
) -> Any:
    """Standard error of a mean of samples.

        mc_error = std / sqrt(T)

    Of balanced draws, with `B` whole blocks of 16 samples:

        mc_error**2 = (w * std**2 / T + (B - 1) * mean_variance) / (w + B - 1)

    and no more than `16 / 15 * std**2 / T`. Few block means say little about
    their variance; `w = 4` degrees of freedom are those of a variance that is
    rather too large.

    Args:
        std: Standard deviation over the samples.
        num_samples: Their number `T`, or an integer array.
        mean_variance: See `Summary`.
        xp: The array library.
    """
    if mean_variance is None:
        return xp.wide(std) / xp.sqrt(xp.wide(num_samples))
    spread = xp.wide(std)
    independent = spread * spread / xp.wide(num_samples)
    degrees = xp.maximum(xp.wide(num_samples // SAMPLES_PER_BLOCK) - 1.0, 0.0)
    weight = _WEIGHT_OF_INDEPENDENT
    blend = weight * independent + degrees * xp.wide(mean_variance)
    return xp.sqrt(
        xp.minimum(blend / (weight + degrees), _LARGEST_RATIO * independent)
    )


def has_block_variance(num_samples: int) -> bool:
    """Returns whether there are enough whole blocks to compare their means."""
    return num_samples >= 2 * SAMPLES_PER_BLOCK


def block_moments(
    squares: Any, blocks: Sequence[Any], num_samples: int, xp: Arrays = NUMPY
) -> tuple[Any, Any]:
    """Unbiased variance of balanced samples, and that of their mean.

    Args:
        squares: Sum over samples of the squared distance from their mean.
        blocks: Mean of the whole blocks; sum over them of the squared distance
            of a block's mean from it; sum of the samples that are left.
        num_samples: Their number `T`, at least 32.
        xp: The array library.
    """
    middle, block_squares, rest = map(xp.wide, blocks)
    left = num_samples % SAMPLES_PER_BLOCK
    apart = rest / left - middle if left else 0.0 * middle
    _, mean_variance = block_variance(
        xp.wide(squares), block_squares, apart * apart, num_samples
    )
    # Below 0 is rounding.
    mean_variance = xp.maximum(mean_variance, 0.0)
    return xp.wide(squares) / num_samples + mean_variance, mean_variance


def block_variance(
    squares: Any,
    block_squares: Any,
    rest_square: Any,
    num_samples: int,
) -> tuple[Any, Any]:
    """What `block_moments` returns, of squares or of products.

    The variance of one sample is `V`, the covariance of two of one block `C`.
    Blocks are independent. With `n[k]` samples in block `k`, whole or not:

        mean_variance = sum{ n[k] * (V + (n[k] - 1) * C) : k } / T**2
        variance      = sum{ (y[t] - mean)**2 : t } / T + mean_variance

    `V - C` is estimated by the squares within blocks, and `V + 15 * C`, which
    is 16 times the variance of the mean of a whole block, by these means.
    Both results are linear in the squares: products of two outputs in their
    place give a covariance.

    Args:
        squares: Sum over samples of the squared distance from their mean.
        block_squares: Sum over whole blocks of the squared distance of a
            block's mean from the mean of all of them.
        rest_square: Squared distance of the mean of the last samples, which
            do not fill a block, from that of the whole blocks; 0 if there are
            none.
        num_samples: Their number `T`, at least 32.
    """
    size = SAMPLES_PER_BLOCK
    blocks, rest = divmod(num_samples, size)
    between = size * block_squares
    apart = (size * blocks * rest / num_samples) * rest_square
    within = squares - between - apart
    # V - C and V + 15 * C.
    inner = within / (num_samples - blocks - bool(rest))
    outer = between / (blocks - 1)
    of_rest = ((size - rest) * inner + rest * outer) / size
    total = size * blocks * outer + rest * of_rest
    mean_variance = total / num_samples**2
    return squares / num_samples + mean_variance, mean_variance


def noise_variance(
    noise_precision: float | Sequence[float] | None,
) -> float | Float64Array:
    """Variance of the observation noise; 0 if its precision is not known.

    An array, if there are several precisions.
    """
    if noise_precision is None:
        return 0.0
    if isinstance(noise_precision, Sequence):
        return 1.0 / np.asarray(noise_precision, np.float64)
    return 1.0 / noise_precision


def noise_std(
    noise_precision: float | Sequence[float],
) -> float | Float64Array:
    """Standard deviation of the observation noise, or an array of them."""
    if isinstance(noise_precision, Sequence):
        return 1.0 / np.sqrt(np.asarray(noise_precision, np.float64))
    return 1 / math.sqrt(noise_precision)


def label_variance(s: Summary, xp: Arrays = NUMPY) -> Any:
    """Mean variance of a label, a zero or one, over the networks.

        sum{ p[t] * (1 - p[t]) : t } / T = mean - (biased + mean**2)

    with `biased` the variance that has `T` in its denominator.
    """
    mean = xp.wide(s.mean)
    return xp.maximum(mean - (biased_variance(s, xp) + mean * mean), 0.0)


def biased_variance(s: Summary, xp: Arrays = NUMPY) -> Any:
    """Variance over the samples that has `T` in its denominator.

    It is the variance of the estimated mixture itself: the unbiased one is
    larger by the variance of the mean. Noise that is integrated in closed form
    has no bias.
    """
    biased = xp.wide(s.variance)
    if s.mean_variance is not None:
        return biased - xp.wide(s.mean_variance)
    if s.all_sampled:
        return biased * ((s.num_samples - 1) / s.num_samples)
    if s.sampled_variance is not None:
        return biased - s.sampled_variance / s.num_samples
    return biased


def average(members: Sequence[Any], xp: Arrays = NUMPY) -> Any:
    """Mean over the networks of an ensemble, in float64."""
    total = xp.wide(members[0])
    for member in members[1:]:
        total = total + xp.wide(member)
    return total / len(members)


def variance_between(means: Sequence[Any], xp: Arrays = NUMPY) -> Any:
    """Variance of the means of networks, with their number below.

    between = sum{ (mean[k] - mean)**2 : k } / M
    """
    middle = average(means, xp)
    distances = [xp.wide(mean) - middle for mean in means]
    return average([each * each for each in distances], xp)


def unbiased_mixture(biased: Any, counts: Sequence[Any]) -> Any:
    """Unbiased variance of the samples of all networks of an ensemble.

        biased / (1 - sum{ w[i]**2 : i }),    w[i] = 1 / (M * T[k])

    Args:
        biased: `within + between`.
        counts: Number `T[k]` of samples of each network.
    """
    return biased / (1 - sum(1 / count for count in counts) / len(counts) ** 2)


def unbiased_balanced_mixture(
    biased: Any, mean_variances: Sequence[Any], points: int
) -> Any:
    """Unbiased variance of an ensemble with balanced draws.

        (biased + sum{ mean_variance[k] : k } / M**2) / (1 - points / M**2)

    A network without noise counts as one sample, as in `unbiased_mixture`.

    Args:
        biased: `within + between`.
        mean_variances: Variance of the mean of each network.
        points: Number of the networks without noise.
    """
    squared = len(mean_variances) ** 2
    unbiased = biased + sum(mean_variances) / squared
    return unbiased / (1 - points / squared)


def x_log_x(x: Any, xp: Arrays = NUMPY) -> Any:
    """Returns `x * log(x)`, which is 0 at 0."""
    return x * xp.log(xp.where(x > 0, x, 1.0))


def class_entropy(probabilities: Any, xp: Arrays = NUMPY) -> Any:
    """Entropy over the last axis, in nats.

    H[p] = -sum{ p[c] * log(p[c]) : c }
    """
    return -xp.sum(x_log_x(unit_interval(probabilities, xp), xp))


def bernoulli_entropy(probabilities: Any, xp: Arrays = NUMPY) -> Any:
    """Entropy of a label 0 or 1 for each probability of a 1, in nats.

    H[p] = -p * log(p) - (1 - p) * log(1 - p)
    """
    p = unit_interval(probabilities, xp)
    return -(x_log_x(p, xp) + x_log_x(1.0 - p, xp))


def mutual_information(whole: Any, part: Any, xp: Arrays = NUMPY) -> Any:
    """Entropy of the mean minus mean entropy; below 0 is rounding."""
    return xp.maximum(whole - part, 0.0)


def variation_ratio(favourite: Any, num_samples: Any) -> Any:
    """Share of the samples that do not vote for the favourite class."""
    return 1.0 - favourite / num_samples


def unit_interval(probabilities: Any, xp: Arrays = NUMPY) -> Any:
    """Probabilities in float64, without rounding that left [0, 1]."""
    return xp.clip(xp.wide(probabilities), 0.0, 1.0)
