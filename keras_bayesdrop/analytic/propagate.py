# SPDX-License-Identifier: Apache-2.0
"""Takes moments through the graph of a model, in one pass."""

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop import _keras
from keras_bayesdrop.analytic.joint import Joint
from keras_bayesdrop.analytic.moments import Moments
from keras_bayesdrop.analytic.moments import Outcome
from keras_bayesdrop.analytic.noise import perturb
from keras_bayesdrop.analytic.registry import masked
from keras_bayesdrop.analytic.registry import no_rule
from keras_bayesdrop.analytic.registry import rule_of
from keras_bayesdrop.analytic.weights import perturb_weights
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.plan.calls import inference_call
from keras_bayesdrop.plan.graph import Graph
from keras_bayesdrop.plan.graph import Node
from keras_bayesdrop.sites import noise_of


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
        *(_keras.spec([None, *spec.shape[1:]], spec.dtype) for spec in specs)
    )
    return frozenset(found)


class Pass:
    """One pass through a graph.

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
        self.done = done
        self.without_rules = without_rules
        # Paths of layers whose rule takes units as normal.
        self.approximate: set[str] = set()
        self._last_use = _last_uses(graph)
        self._reached = _reached(graph, chosen)
        # Between the parts of a layer, such as product and activation.
        self._inner = len(graph.specs)

    def run(self, known: dict[int, tf.Tensor]) -> list[Moments]:
        """Returns the moments of the outputs, from values that are certain."""
        values = {
            number: Moments(_real(tensor)) for number, tensor in known.items()
        }
        for index, node in enumerate(self.graph.nodes):
            if index in self.done:
                continue
            given = [values[number] for number in node.inputs]
            try:
                made = self._step(node, given)
            except PlanError:
                if self.without_rules is None:
                    raise
                self.without_rules.add(index)
                made = _certain(node, given)
            values.update(made)
            if self.joint is not None:
                self.joint.keep(
                    [n for n, last in self._last_use.items() if last > index]
                )
        return [values[number] for number in self.graph.outputs]

    def _step(self, node: Node, given: Sequence[Moments]) -> dict[int, Moments]:
        noise = noise_of(node.operation)
        noisy = _is_noisy(node, self.chosen)
        if self._needs_mask(node):
            raise masked(node.operation, node.path)
        if not noisy and all(x.certain for x in given):
            return _certain(node, given)
        rule = rule_of(node.operation)
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
            outcome = given[0]
        if outcome is None:
            raise no_rule(node.operation, node.path)
        if isinstance(outcome, Moments):
            outcome = Outcome(outcome)
        if noise is None and not outcome.linear:
            self.approximate.add(node.path)
        (output,) = node.outputs
        taken: Sequence[int] = node.inputs
        while outcome.then is not None:
            moments = self._follow(outcome, taken, self._inner)
            taken = (self._inner,)
            self._inner += 1
            outcome = outcome.then(moments)
            if not outcome.linear:
                self.approximate.add(node.path)
        return {output: self._follow(outcome, taken, output)}

    def _needs_mask(self, node: Node) -> bool:
        """Whether a layer leaves out noisy entries by a mask."""
        return (
            _keras.accepts(node.operation, "mask")
            # In inference mode it does not look at it.
            and not isinstance(node.operation, keras.layers.BatchNormalization)
            and any(
                _keras.get_mask(self.graph.specs[number]) is not None
                for number in self._reached.intersection(node.inputs)
            )
        )

    def _follow(
        self, outcome: Outcome, inputs: Sequence[int], output: int
    ) -> Moments:
        if self.joint is None:
            return outcome.moments
        return self.joint.follow(outcome, inputs, output)


def _is_noisy(node: Node, chosen: Collection[str]) -> bool:
    """Whether a node is noise that is on, or has some inside."""
    inside = f"{node.path}/"
    return any(path == node.path or path.startswith(inside) for path in chosen)


def _reached(graph: Graph, chosen: Collection[str]) -> set[int]:
    """Returns the values that noise reaches."""
    reached: set[int] = set()
    for node in graph.nodes:
        if _is_noisy(node, chosen) or not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return reached


def _certain(node: Node, given: Sequence[Moments]) -> dict[int, Moments]:
    """Calls an operation with all noise off."""
    call = inference_call(node.operation, node.fill)
    made = call([x.mean for x in given], None)
    return {
        number: Moments(_real(tensor))
        for number, tensor in zip(node.outputs, made, strict=True)
    }


def _last_uses(graph: Graph) -> dict[int, int]:
    """Returns, per value, the index of the last node that takes it."""
    last = {
        number: index
        for index, node in enumerate(graph.nodes)
        for number in node.inputs
    }
    last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    return last


def _real(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor in float32 or better; ids and the like as they are."""
    tensor = tf.convert_to_tensor(tensor)
    if tensor.dtype in (tf.float16, tf.bfloat16):
        return tf.cast(tensor, tf.float32)
    return tensor
