# SPDX-License-Identifier: Apache-2.0
"""A prediction under way that samples a part of the noise.

batch of rows --prefix--> cut values --part, in blocks of samples--> what the
rest takes --moments--> mean m[t] and variance v[t] given each sample

    mean = E m[t],    variance = E v[t] + Var m[t]

The second is the law of total variance. Only `m` and `v` vary between samples,
so what is left of the Monte Carlo error is that of the part.
"""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import facts
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.moments.propagate import Pass
from keras_bayesdrop.moments.propagate import rules_of
from keras_bayesdrop.moments.propagate import without_rules
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import before_last_noise
from keras_bayesdrop.plan import plan_of_part
from keras_bayesdrop.plan import up_to
from keras_bayesdrop.plan import without_noise
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.detection import Head
from keras_bayesdrop.prediction.methods.moments import covariance_rows
from keras_bayesdrop.prediction.methods.moments import is_narrow
from keras_bayesdrop.prediction.methods.moments import read_output
from keras_bayesdrop.prediction.methods.sampling import Run
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.sampling import accumulate
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.geometry import choose_geometry
from keras_bayesdrop.predictive import EngineStep


@dataclasses.dataclass(frozen=True)
class Part:
    """What to sample of a model.

    Attributes:
        plan: Makes what the rest takes.
        nodes: Indexes of its nodes in the graph.
        without_rules: Those because of which it is sampled.
    """

    plan: Plan
    nodes: frozenset[int]
    without_rules: frozenset[int]


def part_to_sample(
    model: Any,
    graph: Graph,
    plan: Plan,
    method: str,
    covariance: str | None,
    fallback: str | None,
) -> tuple[Part | None, bool]:
    """Decides what has to be sampled, and whether to carry covariances.

    Args:
        model: The model.
        graph: Its graph.
        plan: The plan of all of it.
        method: `"moments"` or `"rao_blackwell"`.
        covariance: What was asked for.
        fallback: Likewise.

    Returns:
        The part, `None` if nothing has to be sampled; and whether covariances
        between units are carried through the rest.
    """
    plan.require_folding(allow_hidden_noise=True)
    nodes, missing = without_noise(graph, plan), frozenset[int]()
    full = covariance == "full"
    if method == "rao_blackwell":
        nodes |= before_last_noise(graph, plan)
        if covariance is None:
            full = is_narrow(graph, rest(graph, nodes))
    if fallback is not None:
        missing = _known_without_rules(model, graph, plan, full)
        nodes |= up_to(graph, missing)
    part = plan_of_part(plan, graph, nodes)
    if not any(step.random for step in part.suffix):
        return None, full
    for value in part.outputs:
        if value in plan.batchless | plan.entries:
            shape = tuple(plan.specs[value].shape)
            raise PlanError(
                f"Samples of model `{model.name}` meet its closed form at a "
                "value without a row for each example. Expected shape "
                "[batch, ...], or method='sampling'. Received: shape "
                f"{shape}"
            )
    return Part(part, nodes, missing), full


def rest(graph: Graph, nodes: frozenset[int]) -> list[Node]:
    """Returns the nodes that are not among some."""
    return [n for index, n in enumerate(graph.nodes) if index not in nodes]


def _known_without_rules(
    model: Any, graph: Graph, plan: Plan, full: bool
) -> frozenset[int]:
    """Looks for nodes without a rule, once for plans like this one."""
    return facts.get(
        model,
        ("without rules", plan.signature, rules_of(graph), full),
        lambda: frozenset(without_rules(graph, plan.chosen, full)),
    )


class PartialRun(Run):
    """One prediction under way.

    Args:
        model: The model.
        graph: Its graph.
        whole: The plan of all of it.
        part: What to sample.
        method: What the result calls it.
        full: Whether to carry covariances between units.
        engine: Runs the part.
        task: As in `Run`.
        from_logits: As in `Run`.
        request: As in `Run`.
    """

    def __init__(
        self,
        model: Any,
        graph: Graph,
        whole: Plan,
        part: Part,
        method: str,
        full: bool,
        engine: str,
        task: Any,
        from_logits: bool | None,
        request: Request,
    ) -> None:
        super().__init__(
            model,
            part.plan,
            engine,
            task,
            from_logits,
            request,
            len(whole.outputs),
        )
        self.graph = graph
        self.whole = whole
        self.part = part
        self.method = method
        self.full = full
        self.approximate: frozenset[str] = frozenset()

    def _accept_mixing(self) -> None:
        """Raises: a closed form does not know the other rows."""
        raise PlanError(
            f"Rows of model `{self.model.name}` depend on the rest of their "
            f"batch ({self.plan.one_at_a_time}), which moments do not know. "
            "Expected rows that do not influence each other, or "
            f"method='sampling'. Received: method={self.method!r}"
        )

    def _warn_of_dead_network(self) -> None:
        """Says nothing: what is in closed form is not sampled."""

    def _geometry(self, num_rows: int) -> Geometry:
        request = self.request
        # Moments take what samples of the whole would.
        geometry = choose_geometry(
            self.whole,
            self.whole.suffix,
            request.batch_size,
            num_rows,
            request.samples_at_once,
            request.shared,
        )
        if not self.full:
            return geometry
        most = covariance_rows(self.graph, rest(self.graph, self.part.nodes))
        rows = min(geometry.tile_rows, most)
        samples = geometry.samples
        while samples > 1 and rows * samples > most:
            samples //= 2
        # A multiple of 16, or a power of two.
        samples = samples // 16 * 16 or 1 << (samples.bit_length() - 1)
        return Geometry(rows, samples)

    def _collector(self, output: int, first_row: int, number: int) -> Any:
        return ConditionalCollector(self.heads[output])

    def _finished(self, outputs: list[tf.Tensor]) -> list[Any]:
        """Returns, per output, its moments given every sample."""
        program, self.approximate = self._program(outputs)
        return list(program(*outputs))

    def _program(self, values: Sequence[tf.Tensor]) -> Any:
        """Returns the compiled closed form, and where it is approximate."""
        part, heads, full = self.part, list(self.heads), self.full
        graph, chosen = self.graph, self.plan.chosen
        key = (
            "partial",
            part.plan.signature,
            rules_of(graph),
            part.nodes,
            full,
            tuple(heads),
            tuple((tuple(x.shape[2:]), x.dtype) for x in values),
        )

        approximate: set[str] = set()

        def run(*tensors: tf.Tensor) -> list[tuple[Any, ...]]:
            sizes = tf.shape(tensors[0])[:2]
            known = {
                number: _merge(tensor)
                for number, tensor in zip(
                    part.plan.outputs, tensors, strict=True
                )
            }
            closed = Pass(graph, chosen, full, done=part.nodes)
            with keras.StatelessScope():
                found = closed.run(known)
            approximate.update(closed.approximate)
            return [
                tuple(
                    None if each is None else _split(each, sizes)
                    for each in read_output(head, moments)
                )
                for head, moments in zip(heads, found, strict=True)
            ]

        def make() -> tuple[Any, frozenset[str]]:
            specs = [
                private_keras.spec([None, None, *x.shape[2:]], x.dtype)
                for x in values
            ]
            program = tf.function(run, autograph=False).get_concrete_function(
                *specs
            )
            return program, frozenset(approximate)

        return programs.get(self.model, key, make)

    def _engine_steps(self) -> tuple[EngineStep, ...]:
        missing = {
            self.graph.nodes[index].path for index in self.part.without_rules
        }
        sampled = {step.path for step in self.plan.suffix}
        made = []
        for step in super()._engine_steps():
            if step.name in missing:
                reason = "sampled: no rule for moments"
                step = dataclasses.replace(step, reason=reason)
            elif step.name in sampled:
                step = dataclasses.replace(
                    step, reason=f"sampled: {step.reason}"
                )
            made.append(step)
        for index, node in enumerate(self.graph.nodes):
            if index not in self.part.nodes:
                reason = "closed form given each sample"
                if node.path in self.approximate:
                    reason += ", for normal units"
                made.append(
                    EngineStep(name=node.path, engine="analytic", reason=reason)
                )
        return tuple(made)


class ConditionalCollector:
    """Takes moments given samples of one output and reduces them.

    Args:
        head: How the output is read.
    """

    def __init__(self, head: Head) -> None:
        self.head = head
        self.state: accumulate.State | None = None
        self.variance: Any = 0.0
        self.entropy: Any = 0.0

    def add(self, moments: tuple[Any, ...]) -> None:
        """Takes means, variances and entropies [rows, samples, ...]."""
        mean, variance, entropy = moments
        if self.state is None:
            self.state = accumulate.start(mean, "regression")
        else:
            self.state = accumulate.advance(self.state, mean, "regression")
        self.variance += _sum_samples(variance)
        if entropy is not None:
            self.entropy += _sum_samples(entropy)

    def moments(self) -> accumulate.Moments:
        """Returns the moments of the samples so far."""
        assert self.state is not None
        count = float(self.state[0])
        means = accumulate.finish(self.state)
        dtype = means.mean.dtype
        variance = self.variance / count + means.variance
        if self.head.task == "regression":
            return accumulate.Moments(
                means.mean,
                accumulate.fit_type(variance, dtype),
                sampled_variance=means.variance,
            )
        return accumulate.Moments(
            means.mean,
            variance.astype(dtype),
            (self.entropy / count).astype(dtype),
            sampled_variance=means.variance.astype(dtype),
        )

    def take(self, rows: Any) -> "ConditionalCollector":
        """Returns a collector of some of the rows, by their indexes."""
        assert self.state is not None
        taken = copy.copy(self)
        taken.state = accumulate.take(self.state, rows)
        taken.variance = self.variance[rows]
        if self.head.task != "regression":
            taken.entropy = self.entropy[rows]
        return taken

    def finish(self, numbers: Any) -> Collected:
        """Returns the statistics, after checking that they are finite.

        Args:
            numbers: Index in `x` of each row, for the message.
        """
        assert self.state is not None
        moments = self.moments()
        input_data.check_finite(moments.mean, "the outputs", numbers)
        input_data.check_finite(moments.variance, input_data.SPREAD, numbers)
        return Collected(moments, np.full(len(numbers), int(self.state[0])))


def _sum_samples(values: tf.Tensor) -> Any:
    return np.sum(values.numpy(), axis=1, dtype=np.float64)


def _merge(x: tf.Tensor) -> tf.Tensor:
    """Returns [rows * samples, ...] of [rows, samples, ...]."""
    return tf.ensure_shape(
        tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0)),
        [None, *x.shape[2:]],
    )


def _split(x: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Returns [rows, samples, ...] of [rows * samples, ...]."""
    return tf.ensure_shape(
        tf.reshape(x, tf.concat([sizes, tf.shape(x)[1:]], 0)),
        [None, None, *x.shape[1:]],
    )
