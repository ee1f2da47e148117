# SPDX-License-Identifier: Apache-2.0
"""Noise of two values on few units, case by case.

A sum of few units, each seldom dropped, is far from normal: most of the time
nothing is dropped, and then it is certain. So the draws of a row are told apart
by which of them are the less likely of the two values, as long as these are
few. With n draws of probability q,

    share of a case with k such draws:    q^k (1 - q)^(n - k)

The rest, with more than `order` of them, is one case more. Given it, the draws
are exchangeable, with b[k] the probability of k of them:

    E m[i]      = sum{ b[k] k / n : k > order } / sum{ b[k] : k > order }
    E m[i] m[j] = sum{ b[k] k (k - 1) / (n (n - 1)) : k > order } / ...
"""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_bayesdrop.moments._tensors import as_tensor
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.noise import two_points_of
from keras_bayesdrop.noise import Noise

# Cases that a site may have.
_MOST = 64
# The share of all draws that must be told apart to be worth it.
_LEAST = 0.1


@dataclasses.dataclass(frozen=True)
class Rest:
    """All cases that are not told apart.

    Attributes:
        share: Their probability together, a scalar.
        moments: Of the perturbed value given one of them.
        change: What the less likely draw makes of a unit, less what the other
            does, [rows, units].
        between: Covariance of two draws, a scalar.
    """

    share: tf.Tensor
    moments: Moments
    change: tf.Tensor
    between: tf.Tensor

    def covariance(self) -> tf.Tensor:
        """Returns that of the units, [rows, units, units]."""
        change = self.change
        outer = change[:, :, tf.newaxis] * change[:, tf.newaxis, :]
        return tf.linalg.set_diag(self.between * outer, self.moments.spread())


@dataclasses.dataclass(frozen=True)
class Cases:
    """What noise makes of a value, by which units it drops.

    Attributes:
        values: Tensor [rows, cases, units].
        shares: Probability of each case, [cases].
        rest: `None` if these are all.
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
    """Returns up to how many draws can be told apart, the best first.

    Args:
        draws: Number of independent draws in a row.
        rate: Probability of one of the two values, `None` if it may change.

    Returns:
        `draws` itself if all cases are few enough, and what leaves a rest, if
        that is not nearly all.
    """
    less = 0.0 if rate is None else min(rate, 1.0 - rate)
    return [
        order
        for order in dict.fromkeys([draws, 2, 1])
        if order <= draws
        and count(draws, order) <= _MOST
        and _told_apart(draws, order, less) >= _LEAST
    ]


def _told_apart(draws: int, order: int, less: float) -> float:
    return sum(
        math.comb(draws, k) * less**k * (1.0 - less) ** (draws - k)
        for k in range(order + 1)
    )


def count(draws: int, order: int) -> int:
    """Returns the number of cases with at most `order` draws of a kind."""
    return sum(math.comb(draws, k) for k in range(order + 1))


def split(noise: Noise, x: tf.Tensor, draws: int, order: int) -> Cases:
    """Perturbs a value that is certain, case by case.

    Args:
        noise: Has two values.
        x: Tensor [rows, units].
        draws: Independent draws in a row: the number of units, or 1.
        order: Up to how many draws of the less likely kind to tell apart.
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
    """Returns [cases, draws], 1 for draws of the less likely kind."""
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
    # Summed rather than taken from one, of which nothing may be left.
    likely = ways * less**sizes * (1.0 - less) ** (draws - sizes)
    share = tf.reduce_sum(likely)
    # If nothing is ever dropped, there is no rest, and its moments are any.
    given = tf.math.divide_no_nan(likely, share)
    one = tf.reduce_sum(given * sizes) / draws
    two = tf.reduce_sum(given * sizes * (sizes - 1.0))
    two = two / (draws * (draws - 1.0))
    one, spread, between, share = (
        tf.cast(each, often.dtype)
        for each in (one, one - one**2, two - one**2, share)
    )
    given_it = Moments(often + one * change, spread * tf.square(change))
    return Rest(share, given_it, change, between)
