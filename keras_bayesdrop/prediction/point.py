# SPDX-License-Identifier: Apache-2.0
"""A prediction by a network without noise, as a member of an ensemble."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.noise.draws import MaskRule
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.logit_noise import without_samples
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.base import Totals
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.row_check import require_separate_rows
from keras_bayesdrop.prediction.sampling.programs import sampler_for
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats
from keras_bayesdrop.predictive.ensemble import point
from keras_bayesdrop.random.philox import seed_to_key


class PointRun(Run):
    """A prediction by one pass without noise.

    Args:
        job: The prediction. No noise of its plan is active.
    """

    def __init__(self, job: Job) -> None:
        self.plan = job.plan
        self.readings = job.readings
        self._job = job
        self._engine, _ = choose_engine(job.plan, "reference")
        # Arrays of values and of learned noise, per result and batch.
        self._parts: list[list[list[Any]]] = [[] for _ in job.heads]

    def check_rows(self, inputs: Any) -> bool:
        """Raises if rows influence each other."""

        def first_row(rows: Any) -> list[tf.Tensor]:
            return [part[:1] for parts in self._outputs(rows) for part in parts]

        return require_separate_rows(
            self._job.model,
            (self.plan.signature, "point"),
            first_row,
            inputs,
            "a member of an ensemble must not",
        )

    def _outputs(self, inputs: Any) -> list[tuple[tf.Tensor, ...]]:
        """Returns the results of some rows: values, and learned noise."""
        # No step draws, so that masks do not matter.
        masks = MaskRule(shared=True, balanced=False)
        sampler = sampler_for(self._job.model, self.plan, self._engine, masks)
        values = sampler.prefix(
            self.plan, self._engine, self.plan.flatten(inputs)
        )
        outputs = dict(zip(self.plan.cut, values, strict=False))
        seed = seed_to_key(self._job.request.seed)
        drawn = without_samples(
            [outputs[n] for n in self.plan.outputs],
            self.readings.logit_noise,
            tf.constant(seed, tf.uint64),
        )
        return self.readings.values(drawn)

    def again(self, request: Request) -> Run:
        """Returns a run like this one, which has predicted nothing."""
        run = copy.copy(self)
        run._job = dataclasses.replace(self._job, request=request)
        run._parts = [[] for _ in self._parts]
        return run

    def steps(self, num_rows: int) -> int:
        """Returns how many steps a batch takes."""
        return 1

    def add(self, batch: Batch, step: Callable[[], None]) -> list[Any]:
        """Predicts a batch of rows."""
        outputs = [
            [part.numpy() for part in parts]
            for parts in self._outputs(batch.inputs)
        ]
        for arrays, kept in zip(outputs, self._parts, strict=True):
            for array in arrays:
                input_data.check_finite(array, "the outputs", batch.first_row)
            kept.append(arrays)
        step()
        return [arrays[0] for arrays in outputs]

    def result(self, totals: Totals) -> Any:
        """Returns the `Predictive` of each output, in the model's structure."""
        arrays = [
            [np.concatenate(each) for each in zip(*parts, strict=True)]
            for parts in self._parts
        ]
        self._parts = [[] for _ in self._parts]
        stats = Stats(
            num_samples=1,
            num_rows=totals.num_rows,
            seed=self._job.request.seed,
            seconds=totals.seconds,
            batch_size=totals.largest_batch,
        )
        return self.readings.pack(
            [
                Predictive(**point(head.resolved(), stats, *parts))
                for head, parts in zip(self._job.heads, arrays, strict=True)
            ]
        )
