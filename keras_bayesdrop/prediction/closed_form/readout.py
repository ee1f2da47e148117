# SPDX-License-Identifier: Apache-2.0
"""Goes on in closed form given each sample of a part of the model.

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
from keras_bayesdrop._core.compiled import compiled
from keras_bayesdrop.engines import Engine
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.moments.propagate import Pass
from keras_bayesdrop.moments.propagate import rules_of
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.closed_form.limits import covariance_rows
from keras_bayesdrop.prediction.closed_form.outputs import OutputMoments
from keras_bayesdrop.prediction.closed_form.outputs import read_output
from keras_bayesdrop.prediction.closed_form.outputs import reading_key
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.reading import has_logits
from keras_bayesdrop.prediction.sampling import accumulate
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.readout import Choose
from keras_bayesdrop.prediction.sampling.readout import Readout
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive.heads import Head


@dataclasses.dataclass(frozen=True)
class SampledPart:
    """The part of a model that is sampled.

    Attributes:
        plan: Computes what the rest takes.
        nodes: Indexes of its nodes in the graph.
        without_rules: Those because of which it is sampled.
    """

    plan: Plan
    nodes: frozenset[int]
    without_rules: frozenset[int]


def remaining_nodes(graph: Graph, nodes: frozenset[int]) -> list[Node]:
    """Returns the nodes that are not among some."""
    return [n for index, n in enumerate(graph.nodes) if index not in nodes]


class ClosedFormReadout(Readout):
    """Takes the moments of the rest of a model given each sample of a part.

    Args:
        job: The prediction.
        graph: The graph of its model.
        part: The part that is sampled.
        full: Whether to carry covariances between units.
        method: Name of the method in the result.
    """

    # What is in closed form is not sampled, and may vary all the same.
    explains_constant = False

    def __init__(
        self, job: Job, graph: Graph, part: SampledPart, full: bool, method: str
    ) -> None:
        self.method = method
        self._job = job
        self._graph = graph
        self._part = part
        self._full = full
        self._approximate: frozenset[str] = frozenset()

    def again(self, job: Job) -> Readout:
        """Returns a readout like this one, which has kept nothing."""
        readout = copy.copy(self)
        readout._job = job
        return readout

    def check_mixing(self, plan: Plan) -> None:
        """Raises: a closed form does not know the other rows."""
        raise PlanError(
            f"Rows of model `{self._job.model.name}` depend on the rest of "
            f"their batch ({plan.one_at_a_time}), which moments do not know. "
            "Expected rows that do not influence each other, or "
            f"method='sampling'. Received: method={self.method!r}"
        )

    def geometry(
        self, choose: Choose, plan: Plan, engine: Engine, num_rows: int
    ) -> Geometry:
        """Chooses rows and samples of a step for a batch of rows."""
        # Moments take what samples of the whole would.
        whole = self._job.plan
        geometry = choose(whole, whole.suffix, num_rows, 1)
        if not self._full:
            return geometry
        rest = remaining_nodes(self._graph, self._part.nodes)
        most = covariance_rows(self._graph, rest)
        rows = min(geometry.tile_rows, most)
        samples = geometry.samples
        while samples > 1 and rows * samples > most:
            samples //= 2
        # A multiple of 16, or a power of two.
        samples = samples // 16 * 16 or 1 << (samples.bit_length() - 1)
        return Geometry(rows, samples)

    def collector(
        self, output: int, first_row: int, number: int, balanced: bool
    ) -> Any:
        """Returns what collects an output of some rows."""
        return ConditionalCollector(self._job.heads[output], balanced)

    def read(self, outputs: list[tf.Tensor]) -> list[Any]:
        """Returns, per result, its moments given every sample."""
        program, self._approximate = self._program(outputs)
        return list(program(*outputs))

    def _program(self, values: Sequence[tf.Tensor]) -> Any:
        """Returns the compiled closed form, and where it is approximate."""
        part, full = self._part, self._full
        readings = self._job.readings.each
        graph, chosen = self._graph, part.plan.chosen
        key = (
            "partial",
            part.plan.signature,
            rules_of(graph),
            part.nodes,
            full,
            tuple(map(reading_key, readings)),
            tuple((tuple(x.shape[2:]), x.dtype) for x in values),
        )

        approximate: set[str] = set()

        def run(*tensors: tf.Tensor) -> list[OutputMoments]:
            sizes = tf.shape(tensors[0])[:2]
            known = {
                number: _merge(tensor)
                for number, tensor in zip(
                    part.plan.outputs, tensors, strict=True
                )
            }
            closed = Pass(graph, chosen, full, done=part.nodes)
            with keras.StatelessScope():
                outputs = closed.run(known)
            approximate.update(closed.approximate)
            return [
                read_output(reading, outputs, has_logits(reading.head)).map(
                    lambda each: _split(each, sizes)
                )
                for reading in readings
            ]

        def compile_pass() -> tuple[Any, frozenset[str]]:
            specs = [
                private_keras.spec([None, None, *x.shape[2:]], x.dtype)
                for x in values
            ]
            program = compiled(run, specs)
            return program, frozenset(approximate)

        return programs.get(self._job.model, key, compile_pass)

    def engine_steps(
        self, plan: Plan, steps: Sequence[EngineStep]
    ) -> tuple[EngineStep, ...]:
        """Returns the steps that were sampled, and those in closed form."""
        nodes, part = self._graph.nodes, self._part
        missing = {nodes[index].path for index in part.without_rules}
        sampled = {step.path for step in plan.suffix}
        answer = []
        for step in steps:
            if step.name in missing:
                reason = "sampled: no rule for moments"
                step = dataclasses.replace(step, reason=reason)
            elif step.name in sampled:
                reason = f"sampled: {step.reason}"
                step = dataclasses.replace(step, reason=reason)
            answer.append(step)
        for node in remaining_nodes(self._graph, part.nodes):
            reason = "closed form given each sample"
            if node.path in self._approximate:
                reason += ", for normal units"
            answer.append(
                EngineStep(name=node.path, engine="moments", reason=reason)
            )
        return tuple(answer)


class ConditionalCollector:
    """Takes moments given samples of one output and reduces them.

    Args:
        head: How the output is read.
        balanced: Whether the draws are balanced in blocks of 16 samples.
    """

    def __init__(self, head: Head, balanced: bool = False) -> None:
        self.head = head
        self.balanced = balanced
        self.state: accumulate.State | None = None
        # Sums over samples, float64.
        self.variance: Any = 0.0
        self.entropy: Any = None
        self.noise: Any = None

    def add(
        self, mean: Any, variance: Any, entropy: Any = None, noise: Any = None
    ) -> None:
        """Takes the fields of `OutputMoments`, [rows, samples, ...]."""
        if self.state is None:
            self.state = accumulate.start(
                mean, "regression", balanced=self.balanced
            )
        else:
            self.state = accumulate.advance(
                self.state, mean, "regression", balanced=self.balanced
            )
        self.variance += _sum_samples(variance)
        if entropy is not None:
            self.entropy = (0.0 if self.entropy is None else self.entropy) + (
                _sum_samples(entropy)
            )
        if noise is not None:
            self.noise = (0.0 if self.noise is None else self.noise) + (
                _sum_samples(noise)
            )

    def moments(self) -> accumulate.SampleMoments:
        """Returns the moments of the samples so far."""
        assert self.state is not None
        count = float(self.state[0])
        means = accumulate.finish(self.state, self.balanced)
        dtype = means.mean.dtype
        variance = self.variance / count + means.variance
        if self.head.observation == "number":
            noise = self.noise
            return accumulate.SampleMoments(
                means.mean,
                accumulate.fit_type(variance, dtype),
                sampled_variance=means.variance,
                noise_variance=None
                if noise is None
                else (noise / count).astype(dtype),
                mean_variance=means.mean_variance,
            )
        return accumulate.SampleMoments(
            means.mean,
            variance.astype(dtype),
            (self.entropy / count).astype(dtype),
            sampled_variance=means.variance.astype(dtype),
            mean_variance=means.mean_variance,
        )

    def take(self, rows: Any) -> "ConditionalCollector":
        """Returns a collector of some of the rows, by their indexes."""
        assert self.state is not None
        taken = copy.copy(self)
        taken.state = accumulate.take(self.state, rows)
        taken.variance = self.variance[rows]
        if self.entropy is not None:
            taken.entropy = self.entropy[rows]
        if self.noise is not None:
            taken.noise = self.noise[rows]
        return taken

    def finish(self, numbers: Any) -> Collected:
        """Returns the statistics, after checking that they are finite.

        Args:
            numbers: Index in `x` of each row, for the message.
        """
        assert self.state is not None
        moments = self.moments()
        accumulate.check(moments, numbers)
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
