# SPDX-License-Identifier: Apache-2.0
"""Takes moments through the graph of a model, in one pass."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.moments.cases import split
from keras_bayesdrop.moments.conditional import Group
from keras_bayesdrop.moments.conditional import collapse
from keras_bayesdrop.moments.conditional import put_covariances
from keras_bayesdrop.moments.covariance import Joint
from keras_bayesdrop.moments.graph_nodes import certain
from keras_bayesdrop.moments.graph_nodes import last_uses
from keras_bayesdrop.moments.graph_nodes import real
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome
from keras_bayesdrop.moments.noise import perturb
from keras_bayesdrop.moments.registry import masked
from keras_bayesdrop.moments.registry import no_rule
from keras_bayesdrop.moments.registry import rule_of
from keras_bayesdrop.moments.rules.shaping import nothing
from keras_bayesdrop.moments.segments import is_noisy
from keras_bayesdrop.moments.segments import reached
from keras_bayesdrop.moments.segments import segments_of
from keras_bayesdrop.moments.shared_noise import Link
from keras_bayesdrop.moments.shared_noise import Trail
from keras_bayesdrop.moments.weights import perturb_weights
from keras_bayesdrop.noise import WeightNoise


def propagate(
    graph: Graph,
    chosen: Collection[str],
    inputs: Sequence[tf.Tensor],
    full: bool = False,
) -> list[Moments]:
    """Runs a model on moments.

    Args:
        graph: The model.
        chosen: Paths of the noise sites that are on.
        inputs: Tensors for the inputs of the graph.
        full: Whether to carry covariances between units.

    Returns:
        Moments of the outputs.
    """
    known = dict(zip(graph.inputs, inputs, strict=True))
    return Pass(graph, chosen, full).run(known)


def rules_of(graph: Graph) -> tuple[Any, ...]:
    """Returns the rule of each node: what is compiled depends on them."""
    return tuple(rule_of(node.operation) for node in graph.nodes)


def without_rules(
    graph: Graph, chosen: Collection[str], full: bool
) -> frozenset[int]:
    """Returns the nodes that noise reaches and that have no rule.

    Args:
        graph: The model.
        chosen: Paths of the noise sites that are on.
        full: Whether to carry covariances between units.

    Returns:
        Indexes of nodes.
    """
    found: set[int] = set()

    def run(*tensors: tf.Tensor) -> list[tf.Tensor]:
        known = dict(zip(graph.inputs, tensors, strict=True))
        with keras.StatelessScope():
            made = Pass(graph, chosen, full, without_rules=found).run(known)
        return [moments.mean for moments in made]

    specs = [graph.specs[number] for number in graph.inputs]
    tf.function(run, autograph=False).get_concrete_function(
        *(
            private_keras.spec([None, *spec.shape[1:]], spec.dtype)
            for spec in specs
        )
    )
    return frozenset(found)


class Pass:
    """One pass through a graph.

    Noise on few units is taken case by case, as far as that is cheap and rules
    are approximate: not if nodes are left out, since what is known then has a
    row for each of many samples.

    Args:
        graph: The model.
        chosen: Paths of the noise sites that are on.
        full: Whether to carry covariances between units.
        done: Indexes of nodes that are not run: what others take of them is
            known.
        without_rules: Takes the indexes of nodes that have no rule, which then
            count as free of noise. By default they are an error.
    """

    def __init__(
        self,
        graph: Graph,
        chosen: Collection[str],
        full: bool,
        done: Collection[int] = (),
        without_rules: set[int] | None = None,
    ) -> None:
        self.graph = graph
        self.chosen = chosen
        self.joint = Joint() if full else None
        self.trail = None if full or done else Trail(graph)
        self.done = done
        self.without_rules = without_rules
        # Paths of layers whose rule takes units as normal.
        self.approximate: set[str] = set()
        self._last_use = last_uses(graph, done)
        self._reached = reached(graph, chosen)
        self._segments = {} if done else segments_of(graph, chosen, full)
        # Between the parts of a layer, such as product and activation.
        self._inner = len(graph.specs)

    def run(self, known: Mapping[int, tf.Tensor]) -> list[Moments]:
        """Returns the moments of the outputs, from values that are certain."""
        values = self.values(
            {number: Moments(real(x)) for number, x in known.items()}
        )
        return [values[number] for number in self.graph.outputs]

    def values(self, known: Mapping[int, Moments]) -> dict[int, Moments]:
        """Returns the moments of all values, from some."""
        values = dict(known)
        done = set(self.done)
        for index in self._order():
            if index in done:
                continue
            values.update(self._run_node(index, values))
            if index in self._segments:
                done |= self._by_cases(index, values)
            if self.joint is not None:
                self.joint.keep(
                    [n for n, last in self._last_use.items() if last > index]
                )
        return values

    def _order(self) -> list[int]:
        """Returns all nodes, first those that no noise reaches."""
        nodes = self.graph.nodes
        return sorted(
            range(len(nodes)),
            key=lambda index: (
                not self._reached.isdisjoint(nodes[index].outputs)
            ),
        )

    def _run_node(
        self, index: int, values: Mapping[int, Moments]
    ) -> dict[int, Moments]:
        node = self.graph.nodes[index]
        given = [values[number] for number in node.inputs]
        try:
            return self._step(node, given)
        except PlanError:
            if self.without_rules is None:
                raise
            self.without_rules.add(index)
            return certain(node, given)

    def _by_cases(
        self, site: int, values: dict[int, Moments]
    ) -> frozenset[int]:
        """Runs what follows a noise site for what it drops, case by case.

        Args:
            site: Index of the site.
            values: What is known. Takes what others need of the nodes.

        Returns:
            The nodes that have been run: none if their rules are exact, or
            missing.
        """
        segment = self._segments[site]
        node = self.graph.nodes[site]
        (output,) = node.outputs
        others = set(range(len(self.graph.nodes))).difference(segment.nodes)

        def part(full: bool) -> Pass:
            return Pass(self.graph, self.chosen, full, others, set())

        trial = part(False)
        trial.values(values)
        if trial.without_rules or not trial.approximate:
            return frozenset()
        self.approximate |= trial.approximate
        x = values[node.inputs[0]].mean
        made = split(segment.noise, x, segment.draws, segment.order)
        needed = {n for i in segment.nodes for n in self.graph.nodes[i].inputs}
        rows = {
            number: Moments(tf.repeat(values[number].mean, made.count, axis=0))
            for number in needed & values.keys()
        }
        rows[output] = Moments(made.as_rows())
        groups = [Group(made.shares, part(False).values(rows))]
        if made.rest is not None:
            rest = part(self.joint is not None)
            if rest.joint is not None:
                rest.joint.put(output, output, made.rest.covariance())
            given = rest.values({**values, output: made.rest.moments})
            share = tf.reshape(made.rest.share, [1])
            groups.append(Group(share, given, rest.joint))
        values.update({n: collapse(groups, n) for n in segment.leaving})
        if self.joint is not None:
            put_covariances(groups, segment.leaving, self.joint)
        return frozenset(segment.nodes)

    def _step(self, node: Node, given: Sequence[Moments]) -> dict[int, Moments]:
        noise = noise_of(node.operation)
        noisy = is_noisy(node, self.chosen)
        if self._needs_mask(node):
            raise masked(node.operation, node.path)
        if not noisy and all(x.certain for x in given):
            return certain(node, given)
        (output,) = node.outputs
        # Outputs are corrected once, before what is not linear.
        correct = self._correction(output)
        outcome = self._outcome(node, given, noisy)
        if not outcome.linear and outcome.then is None and len(given) == 1:
            corrected = correct(node.inputs[0], given[0])
            if corrected is not given[0]:
                given = [corrected]
                outcome = self._outcome(node, given, noisy)
        if noise is None and not outcome.linear:
            self.approximate.add(node.path)
        taken: Sequence[int] = node.inputs
        while outcome.then is not None:
            moments = self._follow(outcome, taken, given, self._inner)
            moments = correct(self._inner, moments)
            taken, given = (self._inner,), [moments]
            self._inner += 1
            outcome = outcome.then(moments)
            if not outcome.linear:
                self.approximate.add(node.path)
        made = self._follow(outcome, taken, given, output)
        return {output: correct(output, made)}

    def _outcome(
        self, node: Node, given: Sequence[Moments], noisy: bool
    ) -> Outcome:
        """Returns what the rule of a node makes of its inputs."""
        rule = rule_of(node.operation)
        noise = noise_of(node.operation)
        outcome: Moments | Outcome | None
        if rule is not None:
            outcome = rule(node.operation, given)
        elif noise is None:
            outcome = None
        elif isinstance(noise[0], WeightNoise):
            outcome = perturb_weights(node.operation, given[0], noisy)
        elif noisy:
            outcome = perturb(*noise, given[0])
        else:
            outcome = nothing(node.operation, given)
        if outcome is None:
            raise no_rule(node.operation, node.path)
        return Outcome(outcome) if isinstance(outcome, Moments) else outcome

    def _correction(self, output: int) -> Callable[[int, Moments], Moments]:
        """Returns what corrects one value of the node that makes `output`."""
        trail = self.trail
        if trail is None or output not in self.graph.outputs:
            return lambda number, x: x
        done = False

        def correct(number: int, x: Moments) -> Moments:
            nonlocal done
            made = x if done else trail.correct(number, x)
            done = done or made is not x
            return made

        return correct

    def _needs_mask(self, node: Node) -> bool:
        """Whether a layer leaves out noisy entries by a mask."""
        return (
            private_keras.accepts(node.operation, "mask")
            # In inference mode it does not look at it.
            and not isinstance(node.operation, keras.layers.BatchNormalization)
            and any(
                private_keras.get_mask(self.graph.specs[number]) is not None
                for number in self._reached.intersection(node.inputs)
            )
        )

    def _follow(
        self,
        outcome: Outcome,
        inputs: Sequence[int],
        given: Sequence[Moments],
        output: int,
    ) -> Moments:
        if self.trail is not None:
            self.trail.add(output, Link(outcome, tuple(inputs), tuple(given)))
        if self.joint is None:
            return outcome.moments
        return self.joint.follow(outcome, inputs, output)
