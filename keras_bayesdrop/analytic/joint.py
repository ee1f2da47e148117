# SPDX-License-Identifier: Apache-2.0
"""Covariances between all units of all values that are still needed.

Kept for vectors of units [rows, units]. With the mean derivative J of a rule,

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

from keras_bayesdrop.analytic.moments import Moments
from keras_bayesdrop.analytic.moments import Outcome


class Joint:
    """Covariances [rows, units, units] by pairs of values."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], tf.Tensor] = {}

    def get(self, one: int, other: int) -> tf.Tensor | None:
        """Returns Cov(one, other), or `None` if it is zero or not known."""
        if (one, other) in self._blocks:
            return self._blocks[one, other]
        if (other, one) in self._blocks:
            return tf.linalg.matrix_transpose(self._blocks[other, one])
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
                if (block := self.get(value, other)) is not None
            ]
            if terms:
                self._blocks[output, other] = tf.add_n(terms)
        own = [
            jacobian.times(tf.linalg.matrix_transpose(block))
            for jacobian, value in pairs
            if (block := self.get(output, value)) is not None
        ]
        mean = moments.mean
        covariance = tf.add_n(own) if own else None
        if outcome.joint is not None:
            before = self.get(inputs[0], inputs[0])
            if before is None:
                before = tf.linalg.diag(tf.zeros_like(mean))
            mean, covariance = outcome.joint(before)
        elif covariance is None:
            covariance = tf.linalg.diag(moments.variance)
        elif not outcome.linear:
            covariance = tf.linalg.set_diag(covariance, moments.variance)
        self._blocks[output, output] = covariance
        variance = tf.maximum(tf.linalg.diag_part(covariance), 0.0)
        return Moments(mean, variance)
