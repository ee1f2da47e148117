# SPDX-License-Identifier: Apache-2.0
"""Mean and variance of a value of the network, and how a layer changes them."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Moments:
    """What is known of the distribution of a value.

    Attributes:
        mean: Tensor [rows, ...].
        variance: Tensor like `mean`, or `None` for a value that is certain.
    """

    mean: tf.Tensor
    variance: tf.Tensor | None = None

    @property
    def certain(self) -> bool:
        """Whether no noise has reached the value."""
        return self.variance is None

    def spread(self) -> tf.Tensor:
        """Returns the variance, zeros for a value that is certain."""
        if self.variance is None:
            return tf.zeros_like(self.mean)
        return self.variance


@dataclasses.dataclass(frozen=True)
class Diagonal:
    """Covariances of units that are uncorrelated: variances [rows, units]."""

    values: tf.Tensor

    def dense(self) -> tf.Tensor:
        """Returns [rows, units, units]."""
        return tf.linalg.diag(self.values)


# Covariances of two values, [rows, units of one, units of the other].
Block: TypeAlias = tf.Tensor | Diagonal


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A mean derivative that mixes units: [in, out]."""

    values: tf.Tensor

    def times(self, block: Block) -> Block:
        """Returns [rows, out, any] of a block [rows, in, any]."""
        if isinstance(block, Diagonal):
            kernel = tf.linalg.matrix_transpose(self.values)
            return kernel * block.values[:, tf.newaxis, :]
        return tf.einsum("ij,rik->rjk", self.values, block)

    def around(self, block: Diagonal) -> tf.Tensor:
        """Returns J Cov J' [rows, out, out] of units that are uncorrelated.

        As one matmul of the variances with the products of all pairs of
        weights: for a few outputs many times faster than two of matrices that
        are different for each row.
        """
        inputs, outputs = self.values.shape
        pairs = self.values[:, :, tf.newaxis] * self.values[:, tf.newaxis, :]
        made = block.values @ tf.reshape(pairs, [inputs, outputs * outputs])
        return tf.reshape(made, [-1, outputs, outputs])


@dataclasses.dataclass(frozen=True)
class Factor:
    """A mean derivative of every unit alone: [rows or 1, units or 1]."""

    values: tf.Tensor

    def times(self, block: Block) -> Block:
        """Returns [rows, units, any] of a block [rows, units, any]."""
        if isinstance(block, Diagonal):
            return Diagonal(self.values * block.values)
        return self.values[..., tf.newaxis] * block


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a rule makes of its inputs.

    Attributes:
        moments: Of the output.
        jacobians: Per input, the mean derivative of the output by it. Empty
            if the rule does not say; covariances then end here.
        joint: Maps the covariance of the only input [rows, units, units] to
            moments of the output and covariances between its units, if they
            are known better than by `moments` and `J C J'`. What is on the
            diagonal of the covariances does not count.
        linear: Whether the rule is linear in its random inputs. Then `J C J'`
            is exact, and its diagonal is the variance.
        then: What the layer does next, such as its activation: maps moments to
            an outcome.
        own: What a linear rule adds to each variance by itself, if anything.
        common: Whether units share what the rule adds to their variances.
    """

    moments: Moments
    jacobians: tuple[Matrix | Factor, ...] = ()
    joint: Callable[[tf.Tensor], tuple[Moments, tf.Tensor]] | None = None
    linear: bool = False
    then: Callable[[Moments], "Outcome"] | None = None
    own: tf.Tensor | None = None
    common: bool = False
