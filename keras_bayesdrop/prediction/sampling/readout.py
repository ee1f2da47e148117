# SPDX-License-Identifier: Apache-2.0
"""Turns the outputs of a sampled plan into statistics of the model's outputs.

A `SampleReadout` collects the samples themselves. The readout of a method that
samples a part of the noise goes on in closed form (`closed_form/readout.py`).
"""

import abc
import contextlib
import copy
import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.warn import warn_user
from keras_bayesdrop.engines import Engine
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.reading import Reading
from keras_bayesdrop.prediction.sampling.collect import SKETCH_BYTES
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.collect import Collector
from keras_bayesdrop.prediction.sampling.collect import count_passes
from keras_bayesdrop.prediction.sampling.collect import sketch_elements
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.geometry import batch_bytes
from keras_bayesdrop.prediction.sampling.kept_samples import KeptSamples
from keras_bayesdrop.prediction.sampling.kept_samples import Size
from keras_bayesdrop.prediction.sampling.output_files import by_name
from keras_bayesdrop.prediction.sampling.output_files import files_of
from keras_bayesdrop.prediction.sampling.output_files import noise_file
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.select import quantities_of

# Chooses the geometry of a step: plan, its steps, rows, devices.
Choose = Callable[..., Geometry]


class Readout(abc.ABC):
    """Reads the outputs of a plan.

    Attributes:
        method: Name of the method in the result.
        explains_constant: Whether samples that never differ are worth a
            warning.
    """

    method: str
    explains_constant: bool

    @abc.abstractmethod
    def again(self, job: Job) -> "Readout":
        """Returns a readout like this one, which has kept nothing.

        Args:
            job: The same but for the seed and the first row.
        """

    @abc.abstractmethod
    def geometry(
        self, choose: Choose, plan: Plan, engine: Engine, num_rows: int
    ) -> Geometry:
        """Chooses rows and samples of a step for a batch of rows."""

    @abc.abstractmethod
    def collector(
        self, output: int, first_row: int, number: int, balanced: bool
    ) -> Any:
        """Returns what collects an output of some rows.

        Args:
            output: Number of the result.
            first_row: Number of the first row.
            number: Number of the pass over the samples.
            balanced: Whether samples are balanced in blocks of 16.
        """

    def read(self, outputs: list[tf.Tensor]) -> list[Any]:
        """Returns, per result, the tensors that a collector takes."""
        raise NotImplementedError

    def known_passes(self, num_rows: int) -> int:
        """Returns how often samples are drawn, as far as that is known."""
        return 1

    def warn_of_passes(self, passes: int) -> None:
        """Warns if samples are drawn several times."""

    def reserve(self, num_rows: int) -> None:
        """Makes room for what is kept of so many rows, or raises."""

    def open(self, files: contextlib.ExitStack) -> None:
        """Opens the files that are written."""

    def close(self, num_rows: int) -> None:
        """Ends what is kept, while its files are open."""

    def finish(self, collected: list[Collected]) -> list[Collected]:
        """Adds what was kept elsewhere."""
        return collected

    def check_mixing(self, plan: Plan) -> None:
        """Raises if the method cannot take rows that influence each other."""

    def engine_steps(
        self, plan: Plan, steps: Sequence[EngineStep]
    ) -> tuple[EngineStep, ...]:
        """Returns the steps of the result, of those of the sampled plan."""
        return tuple(steps)


class SampleReadout(Readout):
    """Collects samples: moments, and quantiles or the samples if asked for.

    Args:
        job: The prediction.
    """

    method = "sampling"
    explains_constant = True

    def __init__(self, job: Job) -> None:
        self._plan, self._readings = job.plan, job.readings
        self._request = request = job.request
        self._most_elements = sketch_elements(
            request.num_samples,
            max(SKETCH_BYTES, batch_bytes(job.plan, request.batch_size)),
            len(job.heads),
        )
        self._has_sketches = bool(
            request.quantiles is not None and not request.return_samples
        )
        self._warned = False
        self._kept = kept_samples(job)

    def again(self, job: Job) -> Readout:
        """Returns a readout like this one, which has kept nothing."""
        readout = copy.copy(self)
        readout._request = job.request
        readout._kept = kept_samples(job)
        return readout

    def geometry(
        self, choose: Choose, plan: Plan, engine: Engine, num_rows: int
    ) -> Geometry:
        """Chooses rows and samples of a step for a batch of rows."""
        if self._has_sketches and not plan.one_at_a_time:
            # Fewer rows at once, so that their sketches fit.
            most = max(each.known_outputs(plan) or 1 for each in self._each)
            num_rows = min(num_rows, max(1, self._most_elements // most))
        return choose(
            plan, engine.steps(plan), num_rows, self._request.num_devices
        )

    def known_passes(self, num_rows: int) -> int:
        """Returns how often samples are drawn, as far as that is known."""
        if not self._has_sketches:
            return 1
        return max(
            count_passes(
                num_rows,
                reading.known_outputs(self._plan) or 1,
                self._most_elements,
            )
            for reading in self._each
        )

    @property
    def _each(self) -> Sequence[Reading]:
        return self._readings.each

    def read(self, outputs: list[tf.Tensor]) -> list[Any]:
        """Returns the values of each result, and learned noise."""
        return list(self._readings.values(outputs))

    def warn_of_passes(self, passes: int) -> None:
        """Warns once that samples are drawn several times."""
        if self._warned:
            return
        self._warned = True
        warn_user(
            "The quantiles of a row's outputs do not fit into the memory for "
            f"them: all samples are drawn {passes} times, for a part of the "
            "outputs each time. A larger `batch_size` gives more memory; "
            "fewer samples than 1024 take less; return_samples='samples.npy' "
            "draws samples once, and keeps them in a file."
        )

    def collector(
        self, output: int, first_row: int, number: int, balanced: bool
    ) -> Collector:
        """Returns what collects an output of some rows."""
        request, write = self._request, None
        if self._kept is not None:
            kept = self._kept

            def write(first_sample: int, blocks: Sequence[Any]) -> None:
                kept.write(output, first_sample, first_row, blocks)

        return Collector(
            self._each[output].head,
            request.quantiles,
            bool(request.return_samples),
            self._most_elements,
            number,
            write,
            balanced,
        )

    def reserve(self, num_rows: int) -> None:
        """Makes room for what is kept of so many rows, or raises."""
        if self._kept is not None:
            self._kept.samples.reserve(num_rows)

    def open(self, files: contextlib.ExitStack) -> None:
        """Opens the files that samples are written to."""
        if self._kept is not None:
            self._kept.samples.open(files)

    def close(self, num_rows: int) -> None:
        """Ends what is kept, while its files are open."""
        if self._kept is not None:
            self._kept.close(num_rows, self._request.quantiles)

    def finish(self, collected: list[Collected]) -> list[Collected]:
        """Adds the samples that were kept, and their quantiles."""
        if self._kept is None:
            return collected
        return [
            dataclasses.replace(each, **self._kept.fields(result))
            for result, each in enumerate(collected)
        ]


class Kept:
    """The samples that a prediction keeps, of every result.

    Args:
        job: The prediction.
    """

    def __init__(self, job: Job) -> None:
        plan, request = job.plan, job.request
        sizes: list[Size] = []
        # For every result the places of its values, and of their noise.
        self._places: list[list[int]] = []
        for reading in job.readings.each:
            number = plan.outputs[reading.sources[0]]
            wide = tf.as_dtype(plan.specs[number].dtype) == tf.float64
            size = Size(reading.known_outputs(plan), 8 if wide else 4)
            learned = [size._replace(has_quantiles=False)]
            own = [size, *(learned if _is_learned(reading.head) else [])]
            self._places.append([len(sizes) + n for n in range(len(own))])
            sizes += own
        self.samples = KeptSamples(
            request.num_samples, sizes, _sample_files(job)
        )
        self._quantiles: list[Any] = []

    def write(
        self, result: int, first_sample: int, row: int, blocks: Sequence[Any]
    ) -> None:
        """Takes samples of a result, and of its noise."""
        for place, block in zip(self._places[result], blocks, strict=True):
            self.samples.outputs[place].write(first_sample, row, block)

    def close(self, num_rows: int, levels: Sequence[float] | None) -> None:
        """Ends what is kept, and takes quantiles."""
        self._quantiles = self.samples.close(num_rows, levels)

    def fields(self, result: int) -> dict[str, Any]:
        """Returns what was kept of a result."""
        values, *noise = (
            self.samples.outputs[place].array()
            for place in self._places[result]
        )
        return {
            "samples": values,
            "quantiles": self._quantiles[self._places[result][0]],
            "noise_samples": noise[0] if noise else None,
        }


def kept_samples(job: Job) -> Kept | None:
    """Returns where samples are kept, if they were asked for."""
    plan, request = job.plan, job.request
    # Several workers send their samples with the statistics.
    in_parts = request.samples_in_parts or request.workers is not None
    if not request.return_samples or in_parts:
        return None
    if not all(value in plan.rows for value in plan.outputs):
        if request.samples_path is None:
            return None
        raise PlanError(
            "A file of samples needs outputs with one row for each of `x`. "
            "Expected return_samples=True, or a model with such outputs. "
            f"Received: return_samples='{request.samples_path}', outputs of "
            f"shape {[tuple(plan.specs[n].shape) for n in plan.outputs]}"
        )
    return Kept(job)


def _is_learned(head: Head) -> bool:
    return quantities_of(head).has_learned_noise


def _sample_files(job: Job) -> list[Any] | None:
    """Returns the files of each result, or `None` for memory."""
    path = job.request.samples_path
    if path is None:
        return None
    heads = job.heads
    names = by_name(job.model, job.readings.pack(list(range(len(heads)))))
    by_number = {
        names[name]: file for name, file in files_of(path, list(names)).items()
    }
    files = []
    for number, head in enumerate(heads):
        files.append(by_number[number])
        if _is_learned(head):
            files.append(noise_file(by_number[number]))
    if len(set(files)) < len(files):
        raise PlanError(
            "Two files of samples have the same name. Expected outputs with "
            "names of their own. Received: "
            f"{sorted(str(each.name) for each in files)}"
        )
    return files
