# SPDX-License-Identifier: Apache-2.0
"""Takes moments through the graph of a model, in one pass."""

from collections.abc import Collection
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.analytic.joint import Joint
from keras_bayesdrop.analytic.moments import Moments
from keras_bayesdrop.analytic.moments import Outcome
from keras_bayesdrop.analytic.noise import perturb
from keras_bayesdrop.analytic.registry import no_rule
from keras_bayesdrop.analytic.registry import rule_of
from keras_bayesdrop.plan.calls import inference_call
from keras_bayesdrop.plan.graph import Graph
from keras_bayesdrop.plan.graph import Node
from keras_bayesdrop.sites import noise_of


def propagate(
    graph: Graph,
    chosen: Collection[str],
    inputs: Sequence[tf.Tensor],
    full: bool = False,
    known: dict[int, Moments] | None = None,
) -> list[Moments]:
    """Runs a model on moments.

    Args:
        graph: The model.
        chosen: Paths of the noise sites that are on.
        inputs: Tensors for the inputs of the graph.
        full: Whether to carry covariances between units.
        known: Moments of values that are known from elsewhere.

    Returns:
        Moments of the outputs.
    """
    return Pass(graph, chosen, full).run(inputs, known or {})


class Pass:
    """One pass through a graph."""

    def __init__(
        self, graph: Graph, chosen: Collection[str], full: bool
    ) -> None:
        self.graph = graph
        self.chosen = chosen
        self.joint = Joint() if full else None
        self._last_use = _last_uses(graph)
        # Between the parts of a layer, such as product and activation.
        self._inner = len(graph.specs)

    def run(
        self, inputs: Sequence[tf.Tensor], known: dict[int, Moments]
    ) -> list[Moments]:
        """Returns the moments of the outputs."""
        values = {
            number: Moments(_real(tensor))
            for number, tensor in zip(self.graph.inputs, inputs, strict=True)
        }
        values.update(known)
        for index, node in enumerate(self.graph.nodes):
            if all(number in known for number in node.outputs):
                continue
            if any(number not in values for number in node.inputs):
                continue  # Behind something that is known.
            given = [values[number] for number in node.inputs]
            values.update(self._step(node, given))
            if self.joint is not None:
                self.joint.keep(
                    [n for n, last in self._last_use.items() if last > index]
                )
        return [values[number] for number in self.graph.outputs]

    def _step(self, node: Node, given: Sequence[Moments]) -> dict[int, Moments]:
        noise = noise_of(node.operation)
        noisy = noise is not None and node.path in self.chosen
        if not noisy and all(x.certain for x in given):
            call = inference_call(node.operation, node.fill)
            made = call([x.mean for x in given], None)
            return {
                number: Moments(_real(tensor))
                for number, tensor in zip(node.outputs, made, strict=True)
            }
        rule = rule_of(node.operation)
        outcome: Moments | Outcome
        if rule is not None:
            outcome = rule(node.operation, given)
        elif noise is None:
            raise no_rule(node.operation, node.path)
        elif noisy:
            outcome = perturb(*noise, given[0])
        else:
            outcome = given[0]
        if isinstance(outcome, Moments):
            outcome = Outcome(outcome)
        (output,) = node.outputs
        taken: Sequence[int] = node.inputs
        while outcome.then is not None:
            moments = self._follow(outcome, taken, self._inner)
            taken = (self._inner,)
            self._inner += 1
            outcome = outcome.then(moments)
        return {output: self._follow(outcome, taken, output)}

    def _follow(
        self, outcome: Outcome, inputs: Sequence[int], output: int
    ) -> Moments:
        if self.joint is None:
            return outcome.moments
        return self.joint.follow(outcome, inputs, output)


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
