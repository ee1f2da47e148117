# SPDX-License-Identifier: Apache-2.0
"""Splits noise of two values on few units into cases, and averages over them.

A sum of few units that are seldom dropped is far from normal: most of the time
nothing is dropped, and then the sum is certain. The draws of a row are split
into cases by which of them take the less likely of the two values, as long as
these draws are few. With n draws of probability q,

    share of a case with k such draws:    q^k (1 - q)^(n - k)

All cases with more than `order` such draws form the rest. Given the rest, the
draws are exchangeable. With b[k] the probability of k such draws,

    E m[i]      = sum{ b[k] k / n : k > order } / sum{ b[k] : k > order }
    E m[i] m[j] = sum{ b[k] k (k - 1) / (n (n - 1)) : k > order } / ...

Every case runs as a row of its own. The law of total variance averages over the
cases. With the share p[c], mean m[c] and covariance C[c] of case c,

    mean       = sum{ p[c] m[c] : c }
    covariance = sum{ p[c] (C[c] + (m[c] - mean) (m[c] - mean)') : c }
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_bayesdrop.moments.conversion import as_tensor
from keras_bayesdrop.moments.covariance import Covariances
from keras_bayesdrop.moments.noise import two_points_of
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.noise import Noise

# Largest number of cases of a site.
_MAX_CASES = 64
# Smallest probability of all cases together that is worth the work.
_MIN_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Rest:
    """All cases that do not run on their own.

    Attributes:
        share: Their total probability, a scalar.
        moments: Moments of the perturbed value, given these cases.
        change: Effect of the less likely draw on a unit minus that of the
            other draw, [rows, units].
        between: Covariance of two draws, a scalar.
    """

    share: tf.Tensor
    moments: MeanVariance
    change: tf.Tensor
    between: tf.Tensor

    def covariance(self) -> tf.Tensor:
        """Returns the covariance of the units, [rows, units, units]."""
        change = self.change
        outer = change[:, :, tf.newaxis] * change[:, tf.newaxis, :]
        return tf.linalg.set_diag(self.between * outer, self.moments.spread())


@dataclasses.dataclass(frozen=True)
class Cases:
    """A perturbed value in each case.

    Attributes:
        values: Tensor [rows, cases, units].
        shares: Probability of each case, [cases].
        rest: The other cases, `None` if there are none.
    """

    values: tf.Tensor
    shares: tf.Tensor
    rest: Rest | None

    @property
    def count(self) -> int:
        """Number of cases, without the rest."""
        return int(self.shares.shape[0])

    def as_rows(self) -> tf.Tensor:
        """Returns the values as [rows * cases, units]."""
        return tf.reshape(self.values, [-1, self.values.shape[2]])


def orders(draws: int, rate: float | None) -> list[int]:
    """Returns the orders up to which cases are worth running, the best first.

    Args:
        draws: Number of independent draws in a row.
        rate: Probability of one of the two values, `None` if it may change.

    Returns:
        `draws` itself if there are few cases in all, and smaller orders whose
        cases have a large enough share.
    """
    less = 0.0 if rate is None else min(rate, 1.0 - rate)
    return [
        order
        for order in dict.fromkeys([draws, 2, 1])
        if order <= draws
        and count(draws, order) <= _MAX_CASES
        and _share_of_cases(draws, order, less) >= _MIN_SHARE
    ]


def _share_of_cases(draws: int, order: int, less: float) -> float:
    return sum(
        math.comb(draws, k) * less**k * (1.0 - less) ** (draws - k)
        for k in range(order + 1)
    )


def count(draws: int, order: int) -> int:
    """Returns the number of cases with at most `order` unlikely draws."""
    return sum(math.comb(draws, k) for k in range(order + 1))


def split(noise: Noise, x: tf.Tensor, draws: int, order: int) -> Cases:
    """Perturbs a certain value in each case.

    Args:
        noise: Noise of two values.
        x: Tensor [rows, units].
        draws: Independent draws in a row: the number of units, or 1.
        order: Largest number of unlikely draws in a case.
    """
    points = two_points_of(noise)
    rate = as_tensor(points.rate, tf.float64)
    swapped = rate > 0.5
    less = tf.where(swapped, 1.0 - rate, rate)
    kept = _perturbed(x, *points.kept)
    dropped = _perturbed(x, *points.dropped)
    often = tf.where(swapped, dropped, kept)
    change = tf.where(swapped, kept, dropped) - often
    masks = _masks(draws, order)
    sizes = masks.sum(axis=1)
    shares = less**sizes * (1.0 - less) ** (draws - sizes)
    mask = tf.constant(masks, x.dtype)
    values = often[:, tf.newaxis, :] + mask * change[:, tf.newaxis, :]
    rest = None
    if order < draws:
        rest = _rest(less, draws, order, often, change)
    return Cases(values, tf.cast(shares, x.dtype), rest)


def _perturbed(x: tf.Tensor, factor: Any, summand: Any) -> tf.Tensor:
    return as_tensor(factor, x.dtype) * x + as_tensor(summand, x.dtype)


def _masks(draws: int, order: int) -> npt.NDArray[np.float64]:
    """Returns [cases, draws], 1 for unlikely draws."""
    chosen = [
        each
        for size in range(order + 1)
        for each in itertools.combinations(range(draws), size)
    ]
    masks = np.zeros((len(chosen), draws))
    for mask, each in zip(masks, chosen, strict=True):
        mask[list(each)] = 1.0
    return masks


def _rest(
    less: tf.Tensor,
    draws: int,
    order: int,
    often: tf.Tensor,
    change: tf.Tensor,
) -> Rest:
    sizes = np.arange(order + 1, draws + 1, dtype=np.float64)
    ways = np.array([float(math.comb(draws, int(k))) for k in sizes])
    # Summed, since one minus the other shares may cancel to nothing.
    likely = ways * less**sizes * (1.0 - less) ** (draws - sizes)
    share = tf.reduce_sum(likely)
    # At a rate of zero the rest has no share, and its moments do not matter.
    conditional = tf.math.divide_no_nan(likely, share)
    one = tf.reduce_sum(conditional * sizes) / draws
    two = tf.reduce_sum(conditional * sizes * (sizes - 1.0))
    two = two / (draws * (draws - 1.0))
    one, spread, between, share = (
        tf.cast(each, often.dtype)
        for each in (one, one - one**2, two - one**2, share)
    )
    moments = MeanVariance(often + one * change, spread * tf.square(change))
    return Rest(share, moments, change, between)


@dataclasses.dataclass(frozen=True)
class CaseGroup:
    """Cases that run together, as rows of one batch.

    Attributes:
        shares: Probability of each case, [cases].
        values: Moments [rows * cases, ...] by the number of the value.
        covariances: Covariances of the values, `None` if the values are
            certain or covariances are not carried.
    """

    shares: tf.Tensor
    values: dict[int, MeanVariance]
    covariances: Covariances | None = None

    @property
    def count(self) -> int:
        """Number of cases."""
        return int(self.shares.shape[0])

    def apart(self, tensor: tf.Tensor) -> tf.Tensor:
        """Reshapes [rows * cases, ...] to [rows, cases, ...]."""
        shape = tf.concat([[-1, self.count], tf.shape(tensor)[1:]], 0)
        return tf.ensure_shape(
            tf.reshape(tensor, shape), [None, self.count, *tensor.shape[1:]]
        )

    def average(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns means [rows, ...] of [rows, cases, ...] by the shares."""
        return tf.einsum("c,rc...->r...", self.shares, tensor)


def collapse(groups: Sequence[CaseGroup], value: int) -> MeanVariance:
    """Returns mean and variance of a value over all cases."""
    mean = _mean(groups, value)
    parts = []
    for group in groups:
        moments = group.values[value]
        square = tf.square(group.apart(moments.mean) - mean[:, tf.newaxis])
        if moments.variance is not None:
            square += group.apart(moments.variance)
        parts.append(group.average(square))
    return MeanVariance(mean, tf.add_n(parts))


def put_covariances(
    groups: Sequence[CaseGroup],
    numbers: Sequence[int],
    covariances: Covariances,
) -> None:
    """Stores the covariances of values over all cases.

    Args:
        groups: The cases.
        numbers: Numbers of the values; those that are not vectors of units
            are skipped.
        covariances: Where to store them.
    """
    flat = [n for n in numbers if groups[0].values[n].mean.shape.rank == 2]
    for place, one in enumerate(flat):
        for other in flat[: place + 1]:
            covariances.put(one, other, _covariance(groups, one, other))


def _covariance(groups: Sequence[CaseGroup], one: int, other: int) -> tf.Tensor:
    means = [_mean(groups, value) for value in (one, other)]
    parts = []
    for group in groups:
        first, second = (
            group.apart(group.values[value].mean) - mean[:, tf.newaxis]
            for value, mean in zip((one, other), means, strict=True)
        )
        parts.append(tf.einsum("c,rci,rcj->rij", group.shares, first, second))
        within = (
            None
            if group.covariances is None
            else group.covariances.get(one, other)
        )
        if within is not None:
            parts.append(group.average(group.apart(within)))
    return tf.add_n(parts)


def _mean(groups: Sequence[CaseGroup], value: int) -> tf.Tensor:
    return tf.add_n([g.average(g.apart(g.values[value].mean)) for g in groups])
