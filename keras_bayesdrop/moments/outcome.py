# SPDX-License-Identifier: Apache-2.0
"""Mean and variance of a value, and what a rule says about its output."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class MeanVariance:
    """Mean and variance of a value of the network.

    Attributes:
        mean: Tensor [rows, ...].
        variance: Tensor like `mean`, or `None` for a value that is certain.
    """

    mean: tf.Tensor
    variance: tf.Tensor | None = None

    @property
    def certain(self) -> bool:
        """True if no noise has reached the value."""
        return self.variance is None

    def spread(self) -> tf.Tensor:
        """Returns the variance, zeros for a value that is certain."""
        if self.variance is None:
            return tf.zeros_like(self.mean)
        return self.variance


@dataclasses.dataclass(frozen=True)
class Diagonal:
    """Covariances of uncorrelated units: their variances [rows, units]."""

    values: tf.Tensor

    def dense(self) -> tf.Tensor:
        """Returns [rows, units, units]."""
        return tf.linalg.diag(self.values)


# Covariances of two values, [rows, units of one, units of the other].
CovarianceBlock: TypeAlias = tf.Tensor | Diagonal


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A mean derivative that mixes units: [in, out]."""

    values: tf.Tensor

    def times(self, block: CovarianceBlock) -> CovarianceBlock:
        """Returns [rows, out, any] of a block [rows, in, any]."""
        if isinstance(block, Diagonal):
            kernel = tf.linalg.matrix_transpose(self.values)
            return kernel * block.values[:, tf.newaxis, :]
        return tf.einsum("ij,rik->rjk", self.values, block)

    def around(self, block: Diagonal) -> tf.Tensor:
        """Returns J Cov J' [rows, out, out] of uncorrelated units.

        Multiplies the variances by the products of all pairs of weights, in
        one matmul. With few outputs that is many times faster than two matmuls
        with matrices that differ from row to row.
        """
        inputs, outputs = self.values.shape
        pairs = self.values[:, :, tf.newaxis] * self.values[:, tf.newaxis, :]
        flat = block.values @ tf.reshape(pairs, [inputs, outputs * outputs])
        return tf.reshape(flat, [-1, outputs, outputs])


@dataclasses.dataclass(frozen=True)
class Factor:
    """A mean derivative that keeps units apart: [rows or 1, units or 1]."""

    values: tf.Tensor

    def times(self, block: CovarianceBlock) -> CovarianceBlock:
        """Returns [rows, units, any] of a block [rows, units, any]."""
        if isinstance(block, Diagonal):
            return Diagonal(self.values * block.values)
        return self.values[..., tf.newaxis] * block


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The output of a rule, and how it depends on the inputs.

    Attributes:
        moments: Mean and variance of the output.
        jacobians: Per input, the mean derivative of the output by it. Empty
            if the rule does not know them; covariances then end here.
        joint: Maps the covariance of the only input [rows, units, units] to
            moments of the output and covariances between its units, if these
            are more exact than `moments` and `J C J'`. The diagonal of the
            covariances is ignored.
        linear: Whether the rule is linear in its random inputs. Then `J C J'`
            is exact, and its diagonal is the variance.
        then: The next step of the layer, such as its activation: maps moments
            to an outcome.
        own: Variance that a linear rule itself adds to each output, if any.
        common: Whether units share the noise that the rule adds.
    """

    moments: MeanVariance
    jacobians: tuple[Matrix | Factor, ...] = ()
    joint: Callable[[tf.Tensor], tuple[MeanVariance, tf.Tensor]] | None = None
    linear: bool = False
    then: Callable[[MeanVariance], "Outcome"] | None = None
    own: tf.Tensor | None = None
    common: bool = False
