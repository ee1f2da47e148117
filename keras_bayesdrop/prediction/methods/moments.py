# SPDX-License-Identifier: Apache-2.0
"""A prediction by moments under way: batches in, one `Predictive` per output.

No samples: mean and variance go through the network once.
"""

import collections
import dataclasses
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import found_out
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.graph.survey import Survey
from keras_bayesdrop.moments.case_segments import segments_of
from keras_bayesdrop.moments.covariance import MAX_PAIRED_OUTPUTS
from keras_bayesdrop.moments.entropy import mean_entropy
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.propagate import propagate
from keras_bayesdrop.moments.propagate import rules_of
from keras_bayesdrop.moments.rules.activation import activate
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.detection import Head
from keras_bayesdrop.prediction.detection import resolve_heads
from keras_bayesdrop.prediction.progress import Progress
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.row_check import rows_mix
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats

COVARIANCES = ("diagonal", "full")
# What covariances, or cases, of the rows of a step may take.
_FULL_BYTES = 128 << 20
# Units up to which covariances are carried behind the last noise site without
# being asked for: a product with a kernel [in, out] then takes `out` as many
# operations for each of them.
_NARROW = 64


class MomentsRun:
    """One prediction under way."""

    def __init__(
        self,
        model: Any,
        graph: Graph,
        plan: Plan,
        full: bool,
        task: Any,
        from_logits: bool | None,
        request: Request,
    ) -> None:
        self.model = model
        self.plan = plan
        self.graph = graph
        self.full = full
        self.request = request
        self.heads: list[Head] = resolve_heads(
            model, len(plan.outputs), task, from_logits, plan.pack
        )
        self.parts: list[list[tuple[Any, ...]]] = [[] for _ in self.heads]
        self.num_rows = 0
        self.largest_batch = 0
        self.resolved = _resolved(graph, self.heads)
        self.case_rows = case_rows(self.resolved, plan.chosen, full)

    def check_rows(self, inputs: Any) -> None:
        """Raises if rows influence each other: moments take them apart.

        Args:
            inputs: Structure of arrays or tensors, rows of `x`.
        """

        def first_row(rows: Any) -> list[tf.Tensor]:
            flat = self.plan.flatten(rows)
            return [
                part[:1]
                for output in self._program(flat)(*flat)
                for part in output
                if part is not None
            ]

        key = ("rows mix", self.plan.signature, "moments", self.full)
        if found_out(self.model, key, lambda: rows_mix(first_row, inputs)):
            raise PlanError(
                f"Rows of model `{self.model.name}` depend on the rest of "
                "their batch, which moments do not know. Expected rows that "
                "do not influence each other, or method='sampling'. Received: "
                "an output that changes with other rows"
            )

    def rows_at_once(self, rows: int) -> int:
        """Returns how many rows to take, if memory allows so many."""
        rows = min(rows, self.case_rows)
        if not self.full:
            return rows
        return min(rows, covariance_rows(self.graph, self.graph.nodes))

    def count_steps(
        self, num_rows: int, rows_per_batch: int, batches: int | None
    ) -> int:
        """Returns how many steps predicting so many rows takes."""
        if batches is not None:
            num_rows = min(num_rows, batches * rows_per_batch)
        tile = self.rows_at_once(rows_per_batch)
        full, rest = divmod(num_rows, rows_per_batch)
        return full * -(-rows_per_batch // tile) + -(-rest // tile)

    def add(
        self, batch: input_data.Batch, progress: Progress, checked: bool
    ) -> None:
        """Predicts one batch of rows."""
        if not checked:
            input_data.check_shapes(self.model, batch.inputs)
            for leaf in keras.tree.flatten(batch.inputs):
                input_data.check_finite(leaf, "the inputs `x`", batch.first_row)
        progress.begin_batch()
        inputs = self.plan.flatten(batch.inputs)
        tile = self.rows_at_once(batch.num_rows)
        first = [len(parts) for parts in self.parts]
        for begin in range(0, batch.num_rows, tile):
            rows = inputs
            if tile < batch.num_rows:
                rows = [x[begin : begin + tile] for x in inputs]
            made = self._program(rows)(*rows)
            for parts, each in zip(self.parts, made, strict=True):
                arrays = tuple(
                    None if array is None else array.numpy() for array in each
                )
                input_data.check_finite(
                    arrays[0], "the outputs", batch.first_row + begin
                )
                input_data.check_finite(
                    arrays[1], input_data.SPREAD, batch.first_row + begin
                )
                parts.append(arrays)
            progress.step()
        self.num_rows += batch.num_rows
        self.largest_batch = max(self.largest_batch, batch.num_rows)
        progress.end_batch(
            lambda: self.plan.pack(
                [
                    np.concatenate([part[0] for part in parts[since:]])
                    for parts, since in zip(self.parts, first, strict=True)
                ]
            )
        )

    def _program(self, inputs: list[tf.Tensor]) -> Any:
        """Returns the compiled pass for inputs like these."""
        key = (
            "moments",
            self.plan.signature,
            rules_of(self.graph),
            self.full,
            tuple(self.heads),
            tuple((tuple(x.shape[1:]), x.dtype) for x in inputs),
        )
        graph, chosen, full = self.resolved, self.plan.chosen, self.full
        heads = [Head(head.task) for head in self.heads]

        def run(*tensors: tf.Tensor) -> list[tuple[Any, ...]]:
            with keras.StatelessScope():
                found = propagate(graph, chosen, tensors, full)
            return [
                read_output(head, moments)
                for head, moments in zip(heads, found, strict=True)
            ]

        def make() -> Any:
            specs = [
                private_keras.spec([None, *x.shape[1:]], x.dtype)
                for x in inputs
            ]
            return tf.function(run, autograph=False).get_concrete_function(
                *specs
            )

        return programs.get(self.model, key, make)

    def result(self, seconds: float) -> Any:
        """Returns the `Predictive` of each output, in the model's structure."""
        how = "moments, full covariance" if self.full else "moments"
        stats = Stats(
            num_samples=0,
            num_rows=self.num_rows,
            seed=self.request.seed,
            masks="independent",
            method="moments",
            engine=tuple(
                EngineStep(name=node.path, engine="analytic", reason=how)
                for node in self.graph.nodes
            ),
            seconds=seconds,
            samples_per_second=0.0,
            batch_size=self.largest_batch,
        )
        return self.plan.pack(
            [
                _predictive(head, parts, stats, self.request)
                for head, parts in zip(self.heads, self.parts, strict=True)
            ]
        )


def require_graph(model: Any, surveyed: Survey) -> Graph:
    """Returns the graph of a model, or raises if it has none."""
    if surveyed.graph is None or private_keras.graph_of(model) is None:
        raise PlanError(
            f"Model `{model.name}` computes in code of its own, which "
            "moments cannot be taken through. Expected a Functional or "
            "Sequential model, or method='sampling'. Received: "
            f"{type(model).__name__}"
        )
    return surveyed.graph


def _resolved(graph: Graph, heads: Sequence[Head]) -> Graph:
    """Returns a graph that makes probabilities of its logits."""
    nodes, specs, outputs = list(graph.nodes), list(graph.specs), []
    for number, head in zip(graph.outputs, heads, strict=True):
        if head.from_logits:
            softmax = head.task == "classification"
            wide = specs[number].dtype == "float64"
            activation = keras.layers.Activation(
                "softmax" if softmax else "sigmoid",
                dtype="float64" if wide else "float32",
            )
            made = len(specs)
            specs.append(specs[number])
            nodes.append(
                Node(
                    path=activation.name,
                    operation=activation,
                    inputs=(number,),
                    outputs=(made,),
                    fill=lambda values: ((values[0],), {}),
                )
            )
            number = made
        outputs.append(number)
    return dataclasses.replace(
        graph, nodes=tuple(nodes), specs=tuple(specs), outputs=tuple(outputs)
    )


def case_rows(graph: Graph, chosen: Collection[str], full: bool) -> int:
    """Returns for how many rows at once to run cases of what noise drops."""
    segments = segments_of(graph, chosen, full).values()
    largest = max((each.entries for each in segments), default=1)
    # A value before and after a layer, and what is in between.
    return max(1, _FULL_BYTES // (4 * 4 * largest))


def covariance_rows(graph: Graph, nodes: Iterable[Node]) -> int:
    """Returns for how many rows at once to carry covariances through nodes."""
    largest = 1
    uses = collections.Counter(
        value for node in graph.nodes for value in node.inputs
    )
    for node in nodes:
        if noise_of(node.operation) is None:
            # Noise makes none that were not there before.
            (made, *_), taken = _widths(graph, node)
            if made <= MAX_PAIRED_OUTPUTS and all(
                uses[value] == 1 for value in node.inputs
            ):
                # None with what it takes, which is not seen again.
                taken = []
            largest = max(largest, made * max(made, *taken, 1))
    # The covariance before and after a product, and what is in between.
    return max(1, _FULL_BYTES // (4 * 4 * largest))


def _widths(graph: Graph, node: Node) -> tuple[list[int], list[int]]:
    """Returns how many units a node makes and takes, 1 for other shapes."""
    made, taken = (
        [
            (spec.shape[-1] or 1) if len(spec.shape) == 2 else 1
            for spec in (graph.specs[value] for value in values)
        ]
        for values in (node.outputs, node.inputs)
    )
    return made, taken


def is_narrow(graph: Graph, nodes: Iterable[Node]) -> bool:
    """Whether covariances through nodes cost about what the nodes do."""
    return all(
        max(_widths(graph, node)[0]) <= _NARROW
        for node in nodes
        if noise_of(node.operation) is None
    )


def read_output(head: Head, moments: MeanVariance) -> tuple[Any, ...]:
    """Returns mean, variance and mean entropy of an output."""
    if head.from_logits:
        function = (
            keras.activations.softmax
            if head.task == "classification"
            else keras.activations.sigmoid
        )
        moments = activate(function, moments, "the output").moments
    mean, variance = moments.mean, moments.spread()
    if head.task == "regression":
        return mean, variance, None
    return mean, variance, _mean_entropy(head.task, mean, variance)


def _mean_entropy(task: str, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    if task == "binary":
        mean = tf.stack([mean, 1.0 - mean], axis=-1)
        variance = tf.stack([variance, variance], axis=-1)
    return mean_entropy(mean, variance)


def _predictive(
    head: Head, parts: list[Any], stats: Stats, request: Request
) -> Predictive:
    mean, variance, entropy = (
        [part[field] for part in parts] for field in range(3)
    )
    regression = head.task == "regression"
    return Predictive(
        task=head.task,
        mean=np.concatenate(mean),
        variance=np.concatenate(variance),
        stats=stats,
        mean_entropy=None if regression else np.concatenate(entropy),
        noise_precision=request.noise_precision if regression else None,
    )
