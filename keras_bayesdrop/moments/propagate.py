# SPDX-License-Identifier: Apache-2.0
"""Propagates moments through the graph of a model, in one pass."""

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
from keras_bayesdrop.moments.case_segments import is_noisy
from keras_bayesdrop.moments.case_segments import reached
from keras_bayesdrop.moments.case_segments import segments_of
from keras_bayesdrop.moments.cases import CaseGroup
from keras_bayesdrop.moments.cases import collapse
from keras_bayesdrop.moments.cases import put_covariances
from keras_bayesdrop.moments.cases import split
from keras_bayesdrop.moments.covariance import Covariances
from keras_bayesdrop.moments.noise import perturb
from keras_bayesdrop.moments.noise import scaled
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import masked_error
from keras_bayesdrop.moments.registry import no_rule_error
from keras_bayesdrop.moments.registry import rule_of
from keras_bayesdrop.moments.registry import table_error
from keras_bayesdrop.moments.rules.shaping import identity
from keras_bayesdrop.moments.variance_correction import RuleCall
from keras_bayesdrop.moments.variance_correction import VarianceCorrection
from keras_bayesdrop.moments.weights import perturb_weights
from keras_bayesdrop.noise import MaskTable
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.plan.calls import inference_call


def propagate(
    graph: Graph,
    chosen: Collection[str],
    inputs: Sequence[tf.Tensor],
    full: bool = False,
) -> list[MeanVariance]:
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
    """Returns the rule of each node, which compiled programs depend on."""
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
    nodes: set[int] = set()

    def run(*tensors: tf.Tensor) -> list[tf.Tensor]:
        known = dict(zip(graph.inputs, tensors, strict=True))
        with keras.StatelessScope():
            outputs = Pass(graph, chosen, full, without_rules=nodes).run(known)
        return [moments.mean for moments in outputs]

    specs = [graph.specs[number] for number in graph.inputs]
    tf.function(run, autograph=False).get_concrete_function(
        *(
            private_keras.spec([None, *spec.shape[1:]], spec.dtype)
            for spec in specs
        )
    )
    return frozenset(nodes)


class Pass:
    """One pass through a graph.

    Noise on few units runs case by case where that is cheap and the rules after
    it are approximate. A pass that skips nodes has no cases, because its inputs
    have a row for each of many samples.

    Args:
        graph: The model.
        chosen: Paths of the noise sites that are on.
        full: Whether to carry covariances between units.
        done: Indexes of nodes to skip; the inputs of the pass hold the
            values of these nodes that others use.
        without_rules: A set that receives the indexes of nodes without a
            rule, which then run with noise off. By default such a node is an
            error.
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
        self.covariances = Covariances() if full else None
        self.correction = None if full or done else VarianceCorrection(graph)
        self.done = done
        self.without_rules = without_rules
        # Paths of layers whose rule assumes normal units.
        self.approximate: set[str] = set()
        self._last_use = _last_uses(graph, done)
        self._reached = reached(graph, chosen)
        self._segments = {} if done else segments_of(graph, chosen, full)
        # Number of the next value inside a layer, such as that between matmul
        # and activation.
        self._inner = len(graph.specs)

    def run(self, known: Mapping[int, tf.Tensor]) -> list[MeanVariance]:
        """Returns the moments of the outputs, from certain values."""
        values = self.values(
            {number: MeanVariance(_as_real(x)) for number, x in known.items()}
        )
        return [values[number] for number in self.graph.outputs]

    def values(
        self, known: Mapping[int, MeanVariance]
    ) -> dict[int, MeanVariance]:
        """Returns the moments of all values, from known ones."""
        values = dict(known)
        done = set(self.done)
        for index in self._order():
            if index in done:
                continue
            values.update(self._run_node(index, values))
            if index in self._segments:
                done |= self._by_cases(index, values)
            if self.covariances is not None:
                self.covariances.keep(
                    [n for n, last in self._last_use.items() if last > index]
                )
        return values

    def _order(self) -> list[int]:
        """Returns all nodes, those without noise first."""
        nodes = self.graph.nodes
        return sorted(
            range(len(nodes)),
            key=lambda index: (
                not self._reached.isdisjoint(nodes[index].outputs)
            ),
        )

    def _run_node(
        self, index: int, values: Mapping[int, MeanVariance]
    ) -> dict[int, MeanVariance]:
        node = self.graph.nodes[index]
        inputs = [values[number] for number in node.inputs]
        try:
            return self._apply_rule(node, inputs)
        except PlanError:
            if self.without_rules is None:
                raise
            self.without_rules.add(index)
            return _without_noise(node, inputs)

    def _by_cases(
        self, site: int, values: dict[int, MeanVariance]
    ) -> frozenset[int]:
        """Runs the segment after a noise site once for each case.

        Args:
            site: Index of the site.
            values: Known values; receives the values that leave the segment.

        Returns:
            The nodes that have run: none if their rules are exact or missing.
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
        cases = split(segment.noise, x, segment.draws, segment.order)
        needed = {n for i in segment.nodes for n in self.graph.nodes[i].inputs}
        rows = {
            number: MeanVariance(
                tf.repeat(values[number].mean, cases.count, axis=0)
            )
            for number in needed & values.keys()
        }
        rows[output] = MeanVariance(cases.as_rows())
        groups = [CaseGroup(cases.shares, part(False).values(rows))]
        if cases.rest is not None:
            rest = part(self.covariances is not None)
            if rest.covariances is not None:
                rest.covariances.put(output, output, cases.rest.covariance())
            rest_values = rest.values({**values, output: cases.rest.moments})
            share = tf.reshape(cases.rest.share, [1])
            groups.append(CaseGroup(share, rest_values, rest.covariances))
        values.update({n: collapse(groups, n) for n in segment.leaving})
        if self.covariances is not None:
            put_covariances(groups, segment.leaving, self.covariances)
        return frozenset(segment.nodes)

    def _apply_rule(
        self, node: Node, inputs: Sequence[MeanVariance]
    ) -> dict[int, MeanVariance]:
        noise = noise_of(node.operation)
        noisy = is_noisy(node, self.chosen)
        if self._needs_mask(node):
            raise masked_error(node.operation, node.path)
        if not noisy and all(x.certain for x in inputs):
            return _without_noise(node, inputs)
        (output,) = node.outputs
        # Outputs are corrected once, before a nonlinear rule.
        correct = self._correction(output)
        outcome = self._outcome(node, inputs, noisy)
        if not outcome.linear and outcome.then is None and len(inputs) == 1:
            corrected = correct(node.inputs[0], inputs[0])
            if corrected is not inputs[0]:
                inputs = [corrected]
                outcome = self._outcome(node, inputs, noisy)
        if noise is None and not outcome.linear:
            self.approximate.add(node.path)
        numbers: Sequence[int] = node.inputs
        while outcome.then is not None:
            moments = self._follow(outcome, numbers, inputs, self._inner)
            moments = correct(self._inner, moments)
            numbers, inputs = (self._inner,), [moments]
            self._inner += 1
            outcome = outcome.then(moments)
            if not outcome.linear:
                self.approximate.add(node.path)
        moments = self._follow(outcome, numbers, inputs, output)
        return {output: correct(output, moments)}

    def _outcome(
        self, node: Node, inputs: Sequence[MeanVariance], noisy: bool
    ) -> Outcome:
        """Applies the rule of a node to its inputs."""
        rule = rule_of(node.operation)
        noise = noise_of(node.operation)
        outcome: MeanVariance | Outcome | None
        if rule is not None:
            outcome = rule(node.operation, inputs)
        elif noise is None:
            outcome = None
        elif isinstance(noise[0], WeightNoise):
            outcome = perturb_weights(node.operation, inputs[0], noisy)
        elif isinstance(noise[0], MaskTable):
            if noisy:
                raise table_error(node.path, noise[0].num_masks)
            outcome = scaled(noise[0], inputs[0])
        elif noisy:
            outcome = perturb(*noise, inputs[0])
        else:
            outcome = identity(node.operation, inputs)
        if outcome is None:
            raise no_rule_error(node.operation, node.path)
        return (
            Outcome(outcome) if isinstance(outcome, MeanVariance) else outcome
        )

    def _correction(
        self, output: int
    ) -> Callable[[int, MeanVariance], MeanVariance]:
        """Returns a function that corrects one value of a node."""
        correction = self.correction
        if correction is None or output not in self.graph.outputs:
            return lambda number, x: x
        done = False

        def correct(number: int, x: MeanVariance) -> MeanVariance:
            nonlocal done
            corrected = x if done else correction.correct(number, x)
            done = done or corrected is not x
            return corrected

        return correct

    def _needs_mask(self, node: Node) -> bool:
        """Returns True if a layer masks noisy entries."""
        return (
            private_keras.accepts(node.operation, "mask")
            # In inference mode it ignores the mask.
            and not isinstance(node.operation, keras.layers.BatchNormalization)
            and any(
                private_keras.get_mask(self.graph.specs[number]) is not None
                for number in self._reached.intersection(node.inputs)
            )
        )

    def _follow(
        self,
        outcome: Outcome,
        numbers: Sequence[int],
        inputs: Sequence[MeanVariance],
        output: int,
    ) -> MeanVariance:
        if self.correction is not None:
            self.correction.add(
                output, RuleCall(outcome, tuple(numbers), tuple(inputs))
            )
        if self.covariances is None:
            return outcome.moments
        return self.covariances.follow(outcome, numbers, output)


def _without_noise(
    node: Node, inputs: Sequence[MeanVariance]
) -> dict[int, MeanVariance]:
    """Calls an operation on the means of its inputs, with all noise off."""
    call = inference_call(node.operation, node.fill)
    outputs = call([x.mean for x in inputs], None)
    return {
        number: MeanVariance(_as_real(tensor))
        for number, tensor in zip(node.outputs, outputs, strict=True)
    }


def _last_uses(graph: Graph, done: Collection[int]) -> dict[int, int]:
    """Returns, per value, the index of the last node that uses it.

    Inputs of skipped nodes count as used after all other nodes.
    """
    last = dict.fromkeys(graph.outputs, len(graph.nodes))
    for index, node in enumerate(graph.nodes):
        for number in node.inputs:
            use = len(graph.nodes) if index in done else index
            last[number] = max(use, last.get(number, 0))
    return last


def _as_real(tensor: tf.Tensor) -> tf.Tensor:
    """Returns half precision as float32, and other dtypes unchanged."""
    tensor = tf.convert_to_tensor(tensor)
    if tensor.dtype in (tf.float16, tf.bfloat16):
        return tf.cast(tensor, tf.float32)
    return tensor
