# SPDX-License-Identifier: Apache-2.0
"""What noise that units share adds to the variance of outputs.

Without covariances, the units that the last product takes count as
uncorrelated. They are not: each depends on the same noise before. What that
does to the outputs is measured along a direction `a` of theirs, by going back
towards the noise with the mean derivatives J of the rules:

    g[outputs] = a,    g[n] = sum{ J' g[m] : m takes n }
    Var(a . outputs) = sum{ g[n]^2 . own[n] : n }

`own` is the variance that a rule adds to what comes from its inputs: that of
noise, or of an activation what is not linear in it; and all of it where going
back ends. The ratio to the same sum with the inputs of the last product as
uncorrelated is a factor for the variance of the output.

A direction costs a pass back. Few outputs have one each. Many have one in which
signs alternate, in standard deviations of the outputs.
"""

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.moments.moments import Factor
from keras_bayesdrop.moments.moments import Matrix
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome
from keras_bayesdrop.moments.segments import FEW

# Part of the multiply-adds of the network that going back may cost, if they are
# not few.
_PART = 0.25
# Outputs up to which each has a direction of its own, if that is no more.
_OUTPUTS = 4


@dataclasses.dataclass(frozen=True)
class Link:
    """How a value was made.

    Attributes:
        outcome: What the rule returned.
        inputs: Numbers of the values that it took.
        given: Their moments.
    """

    outcome: Outcome
    inputs: tuple[int, ...]
    given: tuple[Moments, ...]

    @property
    def kernels(self) -> list[Matrix]:
        """Derivatives that mix units."""
        return [j for j in self.outcome.jacobians if isinstance(j, Matrix)]

    @property
    def can_be_followed(self) -> bool:
        """Whether derivatives and `own` are known."""
        outcome = self.outcome
        vectors = (outcome.moments, *self.given)
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
        for jacobian, x in zip(self.outcome.jacobians, self.given, strict=True):
            if not x.certain:
                variance -= tf.square(jacobian.values) * x.spread()
        return tf.maximum(variance, 0.0)


class Trail:
    """How the values of a pass were made, each after those that it takes."""

    def __init__(self, graph: Graph) -> None:
        self._links: dict[int, Link] = {}
        self._allowed = max(FEW, int(_PART * multiply_adds(graph)))

    def add(self, number: int, link: Link) -> None:
        """Adds a value."""
        self._links[number] = link

    def correct(self, number: int, x: Moments) -> Moments:
        """Returns moments of outputs, with what shared noise adds.

        Args:
            number: That of the outputs.
            x: Their moments.
        """
        if x.variance is None or not self._ends_with_a_product(number):
            return x
        nearest = self._way_back(number, 1)
        furthest = nearest
        for products in range(2, len(self._links) + 1):
            way = self._way_back(number, products)
            if way == furthest or self._work(way) > self._allowed:
                break
            furthest = way
        if furthest == nearest:
            return x
        units = x.mean.shape[1]
        if units <= _OUTPUTS and units * self._work(furthest) <= self._allowed:
            directions = tf.unstack(tf.eye(units, dtype=x.mean.dtype))
        else:
            directions = [_alternating(x.variance)]
        ratios = []
        for direction in directions:
            a = tf.broadcast_to(direction, tf.shape(x.mean))
            found = self._variance(number, a, furthest)
            believed = self._variance(number, a, nearest)
            ratios.append(tf.where(believed > 0.0, found / believed, 1.0))
        return Moments(x.mean, x.variance * tf.stack(ratios, axis=1))

    def _ends_with_a_product(self, number: int) -> bool:
        """Whether outputs are a product, but for factors and summands."""
        link = self._links.get(number)
        if link is None or not link.can_be_followed or len(link.inputs) > 1:
            return False
        if link.kernels:
            return True
        return link.outcome.linear and self._ends_with_a_product(link.inputs[0])

    def _way_back(self, number: int, products: int) -> list[int]:
        """Returns the values to go back from, with so many products in a row.

        Each is before those that it takes.
        """
        behind = {number: 0}  # products between a value and the outputs
        way = []
        for each, link in reversed(self._links.items()):
            if behind.get(each, products) >= products:
                continue
            if not link.can_be_followed:
                continue
            way.append(each)
            count = behind[each] + bool(link.kernels)
            for value, x in zip(link.inputs, link.given, strict=True):
                if not x.certain:
                    behind[value] = max(behind.get(value, 0), count)
        return way

    def _work(self, way: Sequence[int]) -> int:
        """Returns the multiply-adds of a row."""
        return sum(
            math.prod(kernel.values.shape)
            for each in way
            for kernel in self._links[each].kernels
        )

    def _variance(
        self, number: int, direction: tf.Tensor, way: Sequence[int]
    ) -> tf.Tensor:
        """Returns the variance of outputs along a direction, [rows].

        Args:
            number: That of the outputs.
            direction: [rows, units].
            way: From where to go back.
        """
        back = {number: direction}
        moments: dict[int, Moments] = {}
        total = tf.zeros_like(direction[:, 0])
        for each in way:
            link, g = self._links[each], back.pop(each)
            own = link.own()
            if own is not None:
                total += tf.reduce_sum(tf.square(g) * own, axis=1)
            for jacobian, value, given in zip(
                link.outcome.jacobians, link.inputs, link.given, strict=True
            ):
                if given.certain:
                    continue
                term = _transposed(jacobian, g)
                back[value] = back[value] + term if value in back else term
                moments[value] = given
        for value, g in back.items():
            spread = moments[value].spread()
            total += tf.reduce_sum(tf.square(g) * spread, axis=1)
        return total


def multiply_adds(graph: Graph) -> int:
    """Returns about how many multiply-adds a row of a model takes."""
    total = 0
    for node in graph.nodes:
        shape = graph.specs[node.outputs[0]].shape
        positions = math.prod(size or 1 for size in shape[1:-1])
        weights = getattr(node.operation, "weights", ())
        total += positions * sum(math.prod(weight.shape) for weight in weights)
    return total


def _alternating(variance: tf.Tensor) -> tf.Tensor:
    """Returns alternating signs in standard deviations of their units.

    The largest is 1, and none less than a millionth: squares stay finite.
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
