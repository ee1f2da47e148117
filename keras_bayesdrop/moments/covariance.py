# SPDX-License-Identifier: Apache-2.0
"""Covariances between all units of all values that are still needed.

Kept for vectors of units [rows, units]; by their variances alone as long as
they are uncorrelated. With the mean derivative J of a rule,

    Cov(y, z) = J Cov(x, z)    for any other value z,
    Cov(y, y) = J Cov(x, x) J'

The second has the rule's own variance on its diagonal, unless the rule is
linear. Both are exact for linear rules and for noise, whose draws do not
depend on anything else; for activations they are exact to first order in the
covariance for normal variables.
"""

from collections.abc import Collection
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.moments.moments import Block
from keras_bayesdrop.moments.moments import Diagonal
from keras_bayesdrop.moments.moments import Factor
from keras_bayesdrop.moments.moments import Matrix
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome

# Outputs up to which products of all pairs of weights are made.
FEW = 64


class Joint:
    """Covariances [rows, units, units] by pairs of values."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], Block] = {}

    def get(self, one: int, other: int) -> tf.Tensor | None:
        """Returns Cov(one, other), or `None` if it is zero or not known."""
        block = self._find(one, other)
        return None if block is None else _dense(block)

    def put(self, one: int, other: int, block: Block) -> None:
        """Sets Cov(one, other)."""
        self._blocks[one, other] = block

    def _find(self, one: int, other: int) -> Block | None:
        if (one, other) in self._blocks:
            return self._blocks[one, other]
        if (other, one) in self._blocks:
            return _transposed(self._blocks[other, one])
        return None

    def keep(self, needed: Collection[int]) -> None:
        """Forgets what is not needed any more."""
        self._blocks = {
            (one, other): block
            for (one, other), block in self._blocks.items()
            if one in needed and other in needed
        }

    def follow(
        self, outcome: Outcome, inputs: Sequence[int], output: int
    ) -> Moments:
        """Adds the output of a rule.

        Args:
            outcome: What the rule returned.
            inputs: Numbers of the values that it took.
            output: Number of the value that it made.

        Returns:
            The moments of the output, with what the covariances know better.
        """
        moments = outcome.moments
        if moments.variance is None:
            return moments
        if moments.mean.shape.rank != 2:
            return moments
        # Without derivatives, nothing is known about the other values.
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
        covariance: Block | None
        if outcome.joint is not None:
            before = self.get(inputs[0], inputs[0])
            if before is None:
                before = tf.linalg.diag(tf.zeros_like(moments.mean))
            moments, between = outcome.joint(before)
            covariance = _with_variance(between, moments.spread())
        elif (covariance := self._own(pairs, output)) is None:
            covariance = Diagonal(moments.variance)
        elif outcome.linear:
            moments = Moments(moments.mean, _variance(covariance))
        else:
            covariance = _with_variance(covariance, moments.variance)
        self._blocks[output, output] = covariance
        # Not read off the covariances where it is known without them: what
        # nobody takes of a graph is not computed.
        return Moments(moments.mean, tf.maximum(moments.spread(), 0.0))

    def _own(
        self, pairs: Sequence[tuple[Matrix | Factor, int]], output: int
    ) -> Block | None:
        """Returns J Cov(x, x) J', or `None` if it is zero."""
        if len(pairs) == 1:
            jacobian, value = pairs[0]
            block = self._find(value, value)
            if (
                isinstance(jacobian, Matrix)
                and isinstance(block, Diagonal)
                and jacobian.values.shape[1] <= FEW
            ):
                return jacobian.around(block)
        own = [
            jacobian.times(_transposed(block))
            for jacobian, value in pairs
            if (block := self._find(output, value)) is not None
        ]
        return _sum(own) if own else None


def _dense(block: Block) -> tf.Tensor:
    return block.dense() if isinstance(block, Diagonal) else block


def _transposed(block: Block) -> Block:
    if isinstance(block, Diagonal):
        return block
    return tf.linalg.matrix_transpose(block)


def _sum(blocks: Sequence[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    return tf.add_n([_dense(block) for block in blocks])


def _variance(block: Block) -> tf.Tensor:
    if isinstance(block, Diagonal):
        return block.values
    return tf.linalg.diag_part(block)


def _with_variance(block: Block, variance: tf.Tensor) -> Block:
    if isinstance(block, Diagonal):
        return Diagonal(variance)
    return tf.linalg.set_diag(block, variance)
