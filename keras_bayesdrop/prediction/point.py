# SPDX-License-Identifier: Apache-2.0
"""A prediction by a network without noise, as a member of an ensemble."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import found_out
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.detection import probabilities
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.base import Totals
from keras_bayesdrop.prediction.row_check import rows_mix
from keras_bayesdrop.prediction.sampling.programs import sampler_for
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats
from keras_bayesdrop.predictive.ensemble import point


class PointRun(Run):
    """A prediction by one pass without noise.

    Args:
        job: The prediction. No noise of its plan is active.
    """

    def __init__(self, job: Job) -> None:
        self.plan = job.plan
        self._job = job
        self._engine, _ = choose_engine(job.plan, "reference")
        self._parts: list[list[Any]] = [[] for _ in job.heads]

    def check_rows(self, inputs: Any) -> None:
        """Raises if rows influence each other."""

        def first_row(rows: Any) -> list[tf.Tensor]:
            return [output[:1] for output in self._outputs(rows)]

        model = self._job.model
        key = ("rows mix", self.plan.signature, "point")
        if found_out(model, key, lambda: rows_mix(first_row, inputs)):
            raise PlanError(
                f"Rows of model `{model.name}` depend on the rest of their "
                "batch, which a member of an ensemble must not. Expected rows "
                "that do not influence each other. Received: an output that "
                "changes with other rows"
            )

    def _outputs(self, inputs: Any) -> list[tf.Tensor]:
        """Returns the outputs of some rows, probabilities for logits."""
        sampler = sampler_for(self._job.model, self.plan, self._engine, True)
        values = sampler.prefix(
            self.plan, self._engine, self.plan.flatten(inputs)
        )
        outputs = dict(zip(self.plan.cut, values, strict=False))
        return [
            probabilities(head, outputs[number])
            for head, number in zip(
                self._job.heads, self.plan.outputs, strict=True
            )
        ]

    def steps(self, num_rows: int) -> int:
        """Returns how many steps a batch takes."""
        return 1

    def add(self, batch: Batch, step: Callable[[], None]) -> list[Any]:
        """Predicts a batch of rows."""
        outputs = [output.numpy() for output in self._outputs(batch.inputs)]
        for output, parts in zip(outputs, self._parts, strict=True):
            input_data.check_finite(output, "the outputs", batch.first_row)
            parts.append(output)
        step()
        return outputs

    def result(self, totals: Totals) -> Any:
        """Returns the `Predictive` of each output, in the model's structure."""
        arrays = [np.concatenate(parts) for parts in self._parts]
        self._parts = [[] for _ in self._parts]
        stats = Stats(
            num_samples=1,
            num_rows=totals.num_rows,
            seed=self._job.request.seed,
            seconds=totals.seconds,
            batch_size=totals.largest_batch,
        )
        return self.plan.pack(
            [
                Predictive(**point(head.resolved(), array, stats))
                for head, array in zip(self._job.heads, arrays, strict=True)
            ]
        )
