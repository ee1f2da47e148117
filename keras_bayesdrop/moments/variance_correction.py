# SPDX-License-Identifier: Apache-2.0
"""Corrects the variance of outputs for noise that units share.

Without covariances, the inputs of the last matmul count as uncorrelated. They
are correlated, because each depends on the same earlier noise. The effect on
the outputs is measured along a direction `a`, by a backward pass towards the
noise with the mean derivatives J of the rules:

    g[outputs] = a,    g[n] = sum{ J' g[m] : m uses n }
    Var(a . outputs) = sum{ g[n]^2 . own[n] : n }

`own` is the variance that a rule adds to that of its inputs: the variance of
noise, or the nonlinear part of an activation. Where the backward pass ends, it
is the whole variance. Dividing this sum by the same sum with uncorrelated
inputs of the last matmul gives a factor for the variance of the output.

Each direction costs a backward pass. Up to four outputs get one direction each.
More outputs share one direction of alternating signs, in units of their
standard deviations.
"""

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.moments.case_segments import CHEAP_MULTIPLY_ADDS
from keras_bayesdrop.moments.outcome import Factor
from keras_bayesdrop.moments.outcome import Matrix
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome

# Largest cost of a backward pass, as a share of the network's multiply-adds,
# unless the pass is cheap.
_MAX_SHARE = 0.25
# Largest number of outputs that get a direction each.
_MAX_DIRECTIONS = 4


@dataclasses.dataclass(frozen=True)
class RuleCall:
    """A rule applied to some values.

    Attributes:
        outcome: Result of the rule.
        inputs: Numbers of the input values.
        input_moments: Moments of the input values.
    """

    outcome: Outcome
    inputs: tuple[int, ...]
    input_moments: tuple[MeanVariance, ...]

    @property
    def kernels(self) -> list[Matrix]:
        """The derivatives that mix units."""
        return [j for j in self.outcome.jacobians if isinstance(j, Matrix)]

    @property
    def is_differentiable(self) -> bool:
        """True if the derivatives and `own` are known."""
        outcome = self.outcome
        vectors = (outcome.moments, *self.input_moments)
        return (
            len(outcome.jacobians) == len(self.inputs)
            and all(each.mean.shape.rank == 2 for each in vectors)
            and not outcome.common
            and (outcome.linear or not self.kernels)
        )

    def own(self) -> tf.Tensor | None:
        """Returns the variance that the rule adds, `None` for zero."""
        if self.outcome.linear:
            return self.outcome.own
        variance = self.outcome.moments.spread()
        for jacobian, x in zip(
            self.outcome.jacobians, self.input_moments, strict=True
        ):
            if not x.certain:
                variance -= tf.square(jacobian.values) * x.spread()
        return tf.maximum(variance, 0.0)


class VarianceCorrection:
    """Records the rules of a pass, in order, and corrects output variances."""

    def __init__(self, graph: Graph) -> None:
        self._calls: dict[int, RuleCall] = {}
        self._allowed = max(
            CHEAP_MULTIPLY_ADDS, int(_MAX_SHARE * multiply_adds(graph))
        )

    def add(self, number: int, call: RuleCall) -> None:
        """Records the rule that computes a value."""
        self._calls[number] = call

    def correct(self, number: int, x: MeanVariance) -> MeanVariance:
        """Returns moments of outputs, corrected for shared noise.

        Args:
            number: Number of the value that holds the outputs.
            x: Its moments.
        """
        if x.variance is None or not self._ends_with_matmul(number):
            return x
        nearest = self._backward_path(number, 1)
        furthest = nearest
        for matmuls in range(2, len(self._calls) + 1):
            path = self._backward_path(number, matmuls)
            if path == furthest or self._work(path) > self._allowed:
                break
            furthest = path
        if furthest == nearest:
            return x
        units = x.mean.shape[1]
        if (
            units <= _MAX_DIRECTIONS
            and units * self._work(furthest) <= self._allowed
        ):
            directions = tf.unstack(tf.eye(units, dtype=x.mean.dtype))
        else:
            directions = [_alternating(x.variance)]
        ratios = []
        for direction in directions:
            a = tf.broadcast_to(direction, tf.shape(x.mean))
            correlated = self._variance(number, a, furthest)
            uncorrelated = self._variance(number, a, nearest)
            ratios.append(
                tf.where(uncorrelated > 0.0, correlated / uncorrelated, 1.0)
            )
        return MeanVariance(x.mean, x.variance * tf.stack(ratios, axis=1))

    def _ends_with_matmul(self, number: int) -> bool:
        """Returns True if only factors and summands follow the last matmul."""
        call = self._calls.get(number)
        if call is None or not call.is_differentiable or len(call.inputs) > 1:
            return False
        if call.kernels:
            return True
        return call.outcome.linear and self._ends_with_matmul(call.inputs[0])

    def _backward_path(self, number: int, matmuls: int) -> list[int]:
        """Returns the values of a backward pass over so many matmuls in a row.

        Each value comes before those that it is computed from.
        """
        behind = {number: 0}  # matmuls between a value and the outputs
        path = []
        for each, call in reversed(self._calls.items()):
            if behind.get(each, matmuls) >= matmuls:
                continue
            if not call.is_differentiable:
                continue
            path.append(each)
            count = behind[each] + bool(call.kernels)
            for value, x in zip(call.inputs, call.input_moments, strict=True):
                if not x.certain:
                    behind[value] = max(behind.get(value, 0), count)
        return path

    def _work(self, path: Sequence[int]) -> int:
        """Returns the multiply-adds per row."""
        return sum(
            math.prod(kernel.values.shape)
            for each in path
            for kernel in self._calls[each].kernels
        )

    def _variance(
        self, number: int, direction: tf.Tensor, path: Sequence[int]
    ) -> tf.Tensor:
        """Returns the variance of outputs along a direction, [rows].

        Args:
            number: Number of the value that holds the outputs.
            direction: [rows, units].
            path: Values of the backward pass.
        """
        back = {number: direction}
        moments: dict[int, MeanVariance] = {}
        total = tf.zeros_like(direction[:, 0])
        for each in path:
            call, g = self._calls[each], back.pop(each)
            own = call.own()
            if own is not None:
                total += tf.reduce_sum(tf.square(g) * own, axis=1)
            for jacobian, value, x in zip(
                call.outcome.jacobians,
                call.inputs,
                call.input_moments,
                strict=True,
            ):
                if x.certain:
                    continue
                term = _transposed(jacobian, g)
                back[value] = back[value] + term if value in back else term
                moments[value] = x
        for value, g in back.items():
            spread = moments[value].spread()
            total += tf.reduce_sum(tf.square(g) * spread, axis=1)
        return total


def multiply_adds(graph: Graph) -> int:
    """Returns the approximate number of multiply-adds per row of a model."""
    total = 0
    for node in graph.nodes:
        shape = graph.specs[node.outputs[0]].shape
        positions = math.prod(size or 1 for size in shape[1:-1])
        weights = getattr(node.operation, "weights", ())
        total += positions * sum(math.prod(weight.shape) for weight in weights)
    return total


def _alternating(variance: tf.Tensor) -> tf.Tensor:
    """Returns alternating signs, divided by the units' standard deviations.

    Deviations are relative to the largest, and at least a millionth of it, so
    that squares stay finite.
    """
    units = variance.shape[1]
    signs = tf.constant([1.0 - 2.0 * (u % 2) for u in range(units)])
    stddev = tf.sqrt(variance)
    largest = tf.reduce_max(stddev, axis=1, keepdims=True)
    relative = tf.math.divide_no_nan(stddev, largest)
    return tf.cast(signs, variance.dtype) / tf.maximum(relative, 1e-6)


def _transposed(jacobian: Matrix | Factor, g: tf.Tensor) -> tf.Tensor:
    """Returns J' g."""
    if isinstance(jacobian, Matrix):
        return tf.matmul(g, jacobian.values, transpose_b=True)
    return jacobian.values * g
