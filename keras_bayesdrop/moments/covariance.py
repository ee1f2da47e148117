# SPDX-License-Identifier: Apache-2.0
"""Covariances between the units of all values that later nodes need.

Covariances exist for vectors of units [rows, units]; uncorrelated units are
stored by their variances alone. With the mean derivative J of a rule,

    Cov(y, z) = J Cov(x, z)    for any other value z,
    Cov(y, y) = J Cov(x, x) J'

Unless the rule is linear, its own variance replaces the diagonal of the second.
Both equations are exact for linear rules and for noise, whose draws are
independent of everything else. For activations of normal variables they are
exact to first order in the covariance.
"""

from collections.abc import Collection
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.moments.outcome import CovarianceBlock
from keras_bayesdrop.moments.outcome import Diagonal
from keras_bayesdrop.moments.outcome import Factor
from keras_bayesdrop.moments.outcome import Matrix
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome

# Largest number of outputs for which `Matrix.around` multiplies all pairs of
# weights.
MAX_PAIRED_OUTPUTS = 64


class Covariances:
    """Covariances [rows, units, units] by pairs of values."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], CovarianceBlock] = {}

    def get(self, one: int, other: int) -> tf.Tensor | None:
        """Returns Cov(one, other), or `None` if it is zero or unknown."""
        block = self._find(one, other)
        return None if block is None else _dense(block)

    def put(self, one: int, other: int, block: CovarianceBlock) -> None:
        """Sets Cov(one, other)."""
        self._blocks[one, other] = block

    def _find(self, one: int, other: int) -> CovarianceBlock | None:
        if (one, other) in self._blocks:
            return self._blocks[one, other]
        if (other, one) in self._blocks:
            return _transposed(self._blocks[other, one])
        return None

    def keep(self, needed: Collection[int]) -> None:
        """Drops the covariances of all values but the needed ones."""
        self._blocks = {
            (one, other): block
            for (one, other), block in self._blocks.items()
            if one in needed and other in needed
        }

    def follow(
        self, outcome: Outcome, inputs: Sequence[int], output: int
    ) -> MeanVariance:
        """Adds the output of a rule.

        Args:
            outcome: Result of the rule.
            inputs: Numbers of the input values.
            output: Number of the output value.

        Returns:
            The moments of the output, corrected by the covariances.
        """
        moments = outcome.moments
        if moments.variance is None:
            return moments
        if moments.mean.shape.rank != 2:
            return moments
        # Without derivatives, covariances with other values are unknown.
        pairs = list(zip(outcome.jacobians, inputs, strict=False))
        others = {n for pair in self._blocks for n in pair}
        for other in others:
            terms = [
                jacobian.times(block)
                for jacobian, value in pairs
                if (block := self._find(value, other)) is not None
            ]
            if terms:
                self._blocks[output, other] = _sum(terms)
        covariance: CovarianceBlock | None
        if outcome.joint is not None:
            before = self.get(inputs[0], inputs[0])
            if before is None:
                before = tf.linalg.diag(tf.zeros_like(moments.mean))
            moments, between = outcome.joint(before)
            covariance = _with_variance(between, moments.spread())
        elif (covariance := self._own(pairs, output)) is None:
            covariance = Diagonal(moments.variance)
        elif outcome.linear:
            moments = MeanVariance(moments.mean, _variance(covariance))
        else:
            covariance = _with_variance(covariance, moments.variance)
        self._blocks[output, output] = covariance
        # The variance is not read off the covariances where the rule knows it:
        # TensorFlow then skips covariances that nobody uses.
        return MeanVariance(moments.mean, tf.maximum(moments.spread(), 0.0))

    def _own(
        self, pairs: Sequence[tuple[Matrix | Factor, int]], output: int
    ) -> CovarianceBlock | None:
        """Returns J Cov(x, x) J', or `None` if it is zero."""
        if len(pairs) == 1:
            jacobian, value = pairs[0]
            block = self._find(value, value)
            if (
                isinstance(jacobian, Matrix)
                and isinstance(block, Diagonal)
                and jacobian.values.shape[1] <= MAX_PAIRED_OUTPUTS
            ):
                return jacobian.around(block)
        own = [
            jacobian.times(_transposed(block))
            for jacobian, value in pairs
            if (block := self._find(output, value)) is not None
        ]
        return _sum(own) if own else None


def _dense(block: CovarianceBlock) -> tf.Tensor:
    return block.dense() if isinstance(block, Diagonal) else block


def _transposed(block: CovarianceBlock) -> CovarianceBlock:
    if isinstance(block, Diagonal):
        return block
    return tf.linalg.matrix_transpose(block)


def _sum(blocks: Sequence[CovarianceBlock]) -> CovarianceBlock:
    if len(blocks) == 1:
        return blocks[0]
    return tf.add_n([_dense(block) for block in blocks])


def _variance(block: CovarianceBlock) -> tf.Tensor:
    if isinstance(block, Diagonal):
        return block.values
    return tf.linalg.diag_part(block)


def _with_variance(
    block: CovarianceBlock, variance: tf.Tensor
) -> CovarianceBlock:
    if isinstance(block, Diagonal):
        return Diagonal(variance)
    return tf.linalg.set_diag(block, variance)
