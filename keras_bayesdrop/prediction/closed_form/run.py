# SPDX-License-Identifier: Apache-2.0
"""A prediction by moments under way: one pass, no samples."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.compiled import compiled
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.moments.propagate import propagate
from keras_bayesdrop.moments.propagate import rules_of
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.closed_form.limits import case_rows
from keras_bayesdrop.prediction.closed_form.limits import covariance_rows
from keras_bayesdrop.prediction.closed_form.outputs import OutputMoments
from keras_bayesdrop.prediction.closed_form.outputs import read_output
from keras_bayesdrop.prediction.closed_form.outputs import reading_key
from keras_bayesdrop.prediction.closed_form.outputs import with_probabilities
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.base import Totals
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.row_check import require_separate_rows
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats


class MomentsRun(Run):
    """A prediction by moments.

    Args:
        job: The prediction.
        graph: The graph of its model.
        full: Whether to carry covariances between units.
    """

    def __init__(self, job: Job, graph: Graph, full: bool) -> None:
        self.plan = job.plan
        self.readings = job.readings
        self._job = job
        self._graph = graph
        self._full = full
        # Arrays, per result and step.
        self._parts: list[list[OutputMoments]] = [[] for _ in job.heads]
        self._resolved = with_probabilities(graph, job.readings.each)
        self._case_rows = case_rows(self._resolved, job.plan.chosen, full)

    def check_rows(self, inputs: Any) -> bool:
        """Raises if rows influence each other: moments take them apart."""

        def first_row(rows: Any) -> list[tf.Tensor]:
            flat = self.plan.flatten(rows)
            return [
                part[:1]
                for output in self._program(flat)(*flat)
                for part in output
                if part is not None
            ]

        return require_separate_rows(
            self._job.model,
            (self.plan.signature, "moments", self._full),
            first_row,
            inputs,
            "moments do not know",
            ", or method='sampling'",
        )

    def _rows_at_once(self, num_rows: int) -> int:
        """Returns how many rows to take, if memory allows so many."""
        num_rows = min(num_rows, self._case_rows)
        if not self._full:
            return num_rows
        return min(num_rows, covariance_rows(self._graph, self._graph.nodes))

    def again(self, request: Request) -> Run:
        """Returns a run like this one, which has predicted nothing."""
        run = copy.copy(self)
        run._job = dataclasses.replace(self._job, request=request)
        run._parts = [[] for _ in self._parts]
        return run

    def steps(self, num_rows: int) -> int:
        """Returns how many steps a batch takes."""
        return -(-num_rows // self._rows_at_once(num_rows))

    def add(self, batch: Batch, step: Callable[[], None]) -> list[Any]:
        """Predicts a batch of rows."""
        inputs = self.plan.flatten(batch.inputs)
        size = self._rows_at_once(batch.num_rows)
        means: list[list[Any]] = [[] for _ in self._parts]
        for begin in range(0, batch.num_rows, size):
            rows = inputs
            if size < batch.num_rows:
                rows = [x[begin : begin + size] for x in inputs]
            outputs = self._program(rows)(*rows)
            for number, output in enumerate(outputs):
                arrays = output.map(lambda x: x.numpy())
                input_data.check_moments(
                    arrays.mean,
                    arrays.variance,
                    batch.first_row + begin,
                    arrays.noise,
                )
                self._parts[number].append(arrays)
                means[number].append(arrays.mean)
            step()
        return [np.concatenate(each) for each in means]

    def _program(self, inputs: list[tf.Tensor]) -> Any:
        """Returns the compiled pass for inputs like these."""
        readings, full = self.readings.each, self._full
        graph, chosen = self._resolved, self.plan.chosen
        key = (
            "moments",
            self.plan.signature,
            rules_of(self._graph),
            full,
            tuple(map(reading_key, readings)),
            tuple((tuple(x.shape[1:]), x.dtype) for x in inputs),
        )

        def run(*tensors: tf.Tensor) -> list[OutputMoments]:
            with keras.StatelessScope():
                outputs = propagate(graph, chosen, tensors, full)
            return [
                read_output(reading, outputs, logits=False)
                for reading in readings
            ]

        def compile_pass() -> Any:
            specs = [
                private_keras.spec([None, *x.shape[1:]], x.dtype)
                for x in inputs
            ]
            return compiled(run, specs)

        return programs.get(self._job.model, key, compile_pass)

    def result(self, totals: Totals) -> Any:
        """Returns a `Predictive`, or a structure of them."""
        reason = "moments, full covariance" if self._full else "moments"
        stats = Stats(
            num_samples=0,
            num_rows=totals.num_rows,
            seed=self._job.request.seed,
            masks="independent",
            method="moments",
            engine=tuple(
                EngineStep(name=node.path, engine="moments", reason=reason)
                for node in self._graph.nodes
            ),
            seconds=totals.seconds,
            samples_per_second=0.0,
            batch_size=totals.largest_batch,
        )
        outputs = [
            _predictive(head, parts, stats)
            for head, parts in zip(self._job.heads, self._parts, strict=True)
        ]
        self._parts = [[] for _ in self._parts]
        return self.readings.pack(outputs)


def _predictive(
    head: Any, parts: list[OutputMoments], stats: Stats
) -> Predictive:
    whole = OutputMoments(
        *(
            None if each[0] is None else np.concatenate(each)
            for each in zip(*parts, strict=True)
        )
    )
    return Predictive(
        head=head,
        mean=whole.mean,
        variance=whole.variance,
        stats=stats,
        mean_entropy=whole.entropy,
        noise_variance=whole.noise,
    )
