# SPDX-License-Identifier: Apache-2.0
"""Puts together what is known case by case.

With the share p[c] of case c, and mean m[c] and covariance C[c] given it,

    mean       = sum{ p[c] m[c] : c }
    covariance = sum{ p[c] (C[c] + (m[c] - mean) (m[c] - mean)') : c }

which is the law of total variance. Cases are rows to whatever runs them.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.moments.covariance import Joint
from keras_bayesdrop.moments.moments import Moments


@dataclasses.dataclass(frozen=True)
class Group:
    """Cases that are run together.

    Attributes:
        shares: Probability of each, [cases].
        values: By number, moments of [rows * cases, ...].
        joint: Covariances of the values, `None` if they are certain or not
            carried.
    """

    shares: tf.Tensor
    values: dict[int, Moments]
    joint: Joint | None = None

    @property
    def count(self) -> int:
        """Number of cases."""
        return int(self.shares.shape[0])

    def apart(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns [rows, cases, ...] of [rows * cases, ...]."""
        shape = tf.concat([[-1, self.count], tf.shape(tensor)[1:]], 0)
        return tf.ensure_shape(
            tf.reshape(tensor, shape), [None, self.count, *tensor.shape[1:]]
        )

    def average(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns sums [rows, ...] of [rows, cases, ...] by their shares."""
        return tf.einsum("c,rc...->r...", self.shares, tensor)


def collapse(groups: Sequence[Group], value: int) -> Moments:
    """Returns mean and variance of a value over all cases."""
    mean = _mean(groups, value)
    parts = []
    for group in groups:
        moments = group.values[value]
        square = tf.square(group.apart(moments.mean) - mean[:, tf.newaxis])
        if moments.variance is not None:
            square += group.apart(moments.variance)
        parts.append(group.average(square))
    return Moments(mean, tf.add_n(parts))


def put_covariances(
    groups: Sequence[Group], numbers: Sequence[int], joint: Joint
) -> None:
    """Adds covariances of values over all cases.

    Args:
        groups: The cases.
        numbers: Of the values, of which vectors of units are taken.
        joint: Takes the covariances.
    """
    flat = [n for n in numbers if groups[0].values[n].mean.shape.rank == 2]
    for place, one in enumerate(flat):
        for other in flat[: place + 1]:
            joint.put(one, other, _covariance(groups, one, other))


def _covariance(groups: Sequence[Group], one: int, other: int) -> tf.Tensor:
    means = [_mean(groups, value) for value in (one, other)]
    parts = []
    for group in groups:
        first, second = (
            group.apart(group.values[value].mean) - mean[:, tf.newaxis]
            for value, mean in zip((one, other), means, strict=True)
        )
        parts.append(tf.einsum("c,rci,rcj->rij", group.shares, first, second))
        within = None if group.joint is None else group.joint.get(one, other)
        if within is not None:
            parts.append(group.average(group.apart(within)))
    return tf.add_n(parts)


def _mean(groups: Sequence[Group], value: int) -> tf.Tensor:
    return tf.add_n([g.average(g.apart(g.values[value].mean)) for g in groups])
