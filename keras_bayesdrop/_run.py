# SPDX-License-Identifier: Apache-2.0
"""A prediction under way: batches of rows in, one `Predictive` per output out.

batch of rows --prefix--> cut values, in tiles of rows
tile --suffix, in blocks of samples--> outputs --> running statistics
"""

import dataclasses
import math
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop import _accumulate
from keras_bayesdrop import _data
from keras_bayesdrop._geometry import Geometry
from keras_bayesdrop._geometry import choose_geometry
from keras_bayesdrop._progress import Progress
from keras_bayesdrop._rng import seed_to_key
from keras_bayesdrop._sampler import Sampler
from keras_bayesdrop._sampler import sampler_for
from keras_bayesdrop._sketch import QuantileSketch
from keras_bayesdrop._tasks import Head
from keras_bayesdrop._tasks import resolve_heads
from keras_bayesdrop.engines import Engine
from keras_bayesdrop.engines import assign_steps
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats


@dataclasses.dataclass(frozen=True)
class Request:
    """What was asked for, checked."""

    num_samples: int
    batch_size: int | None
    shared: bool
    seed: int
    quantiles: tuple[float, ...] | None
    return_samples: bool
    noise_precision: float | None


class Run:
    """One prediction under way: the plan, and what has been collected.

    Args:
        model: The model.
        plan: What to sample of it.
        engine: What the caller asked for.
        task: Of the outputs, as the caller gave it.
        from_logits: Likewise.
        request: The rest of what was asked for.
        num_outputs: Of the model, by default those of the plan.
    """

    method = "sampling"

    def __init__(
        self,
        model: Any,
        plan: Plan,
        engine: str,
        task: Any,
        from_logits: bool | None,
        request: Request,
        num_outputs: int | None = None,
    ) -> None:
        self.model = model
        self.request = request
        self.plan = plan
        self.plan.require_samples()
        self.engine: Engine
        self.engine, self.reason = choose_engine(self.plan, engine)
        self.heads: list[Head] = resolve_heads(
            model,
            num_outputs or len(self.plan.outputs),
            task,
            from_logits,
            self.plan.pack,
        )
        self.sampler: Sampler = sampler_for(
            model, self.plan, self.engine, request.shared
        )
        self.key = tf.constant(seed_to_key(request.seed), tf.uint64)
        self.collected: list[list[Collected]] = [[] for _ in self.heads]
        self.num_rows = 0
        self.largest_batch = 0

    def count_steps(
        self, num_rows: int, rows_per_batch: int, batches: int | None
    ) -> int:
        """Returns how many steps predicting so many rows takes."""
        if batches is not None:
            num_rows = min(num_rows, batches * rows_per_batch)
        full, rest = divmod(num_rows, rows_per_batch)
        total = 0
        for count, rows in ((full, rows_per_batch), (1, rest)):
            if count and rows:
                geometry = self._geometry(rows)
                tiles = math.ceil(rows / geometry.tile_rows)
                blocks = math.ceil(self.request.num_samples / geometry.samples)
                total += count * tiles * blocks
        return total

    def _geometry(self, num_rows: int) -> Geometry:
        return choose_geometry(
            self.plan,
            self.engine.steps(self.plan),
            self.request.batch_size,
            num_rows,
            self.request.num_samples,
            self.request.shared,
        )

    def add(
        self, batch: _data.Batch, progress: Progress, checked: bool
    ) -> None:
        """Predicts one batch of rows."""
        if not checked:
            _data.check_shapes(self.model, batch.inputs)
            for leaf in keras.tree.flatten(batch.inputs):
                _data.check_finite(leaf, "the inputs `x`", batch.first_row)
        geometry = self._geometry(batch.num_rows)
        progress.begin_batch()
        inputs = self.plan.flatten(batch.inputs)
        cut = self.sampler.prefix(self.plan, self.engine, inputs)
        parts: list[list[Collected]] = [[] for _ in self.heads]
        for begin in range(0, batch.num_rows, geometry.tile_rows):
            end = min(begin + geometry.tile_rows, batch.num_rows)
            tile = cut
            if end - begin < batch.num_rows:
                tile = self._rows(cut, batch.num_rows, begin, end)
            first_row = batch.first_row + begin
            made = self._tile(tile, first_row, end - begin, geometry, progress)
            for part, collected in zip(parts, made, strict=True):
                part.append(collected)
        for head_parts, kept in zip(parts, self.collected, strict=True):
            kept.extend(head_parts)
        self.num_rows += batch.num_rows
        self.largest_batch = max(self.largest_batch, batch.num_rows)
        progress.end_batch(
            lambda: self.plan.pack(
                [
                    np.concatenate([part.moments.mean for part in head_parts])
                    for head_parts in parts
                ]
            )
        )

    def _rows(
        self,
        cut: Sequence[tf.Tensor | None],
        num_rows: int,
        begin: int,
        end: int,
    ) -> list[tf.Tensor | None]:
        """Cuts rows out of what the prefix returned, values and masks."""

        def rows_of(number: int, value: Any) -> Any:
            if value is None or number in self.plan.batchless:
                return value
            per_row = value.shape[0] // num_rows
            return value[begin * per_row : end * per_row]

        numbers = (*self.plan.cut, *self.plan.cut)
        return [
            rows_of(n, value) for n, value in zip(numbers, cut, strict=True)
        ]

    def _tile(
        self,
        cut: Sequence[tf.Tensor | None],
        first_row: int,
        num_rows: int,
        geometry: Geometry,
        progress: Progress,
    ) -> list["Collected"]:
        """Draws all samples for some rows."""
        request = self.request
        collectors = [self._collector(head) for head in self.heads]
        for first, count in _blocks(request.num_samples, geometry.samples):
            outputs = self.sampler.suffix(
                self.plan,
                self.engine,
                cut,
                geometry.num_blocks,
                self.key,
                tf.constant(first, tf.int64),
                tf.constant(count, tf.int32),
                tf.constant(first_row, tf.int64),
                tf.constant(num_rows, tf.int32),
            )
            finished = self._finished(outputs)
            for collector, output in zip(collectors, finished, strict=True):
                collector.add(output)
            progress.step()
        return [collector.finish(first_row) for collector in collectors]

    def _collector(self, head: Head) -> Any:
        return Collector(head, self.request)

    def _finished(self, outputs: list[tf.Tensor]) -> list[Any]:
        """Returns, per output of the model, what a collector takes."""
        return outputs

    def result(self, seconds: float) -> Any:
        """Returns the `Predictive` of each output, in the model's structure."""
        request = self.request
        stats = Stats(
            num_samples=request.num_samples,
            num_rows=self.num_rows,
            seed=request.seed,
            masks="shared" if request.shared else "independent",
            method=self.method,
            engine=self._engine_steps(),
            seconds=seconds,
            samples_per_second=self.num_rows * request.num_samples / seconds,
            batch_size=self.largest_batch,
        )
        return self.plan.pack(
            [
                _predictive(head, parts, stats, request)
                for head, parts in zip(self.heads, self.collected, strict=True)
            ]
        )

    def _engine_steps(self) -> tuple[EngineStep, ...]:
        return tuple(
            EngineStep(
                name=each.step.path or each.step.kind,
                engine=each.engine,
                reason=each.reason,
            )
            for each in assign_steps(self.plan, self.engine, self.reason)
        )


@dataclasses.dataclass(frozen=True)
class Collected:
    """Statistics of one output for some rows."""

    moments: _accumulate.Moments
    samples: Any = None
    quantiles: Any = None


class Collector:
    """Takes blocks of samples of one output and reduces them.

    Args:
        head: How the output is read.
        request: What was asked for.
    """

    def __init__(self, head: Head, request: Request) -> None:
        self.head = head
        self.request = request
        self.state: _accumulate.State | None = None
        self.samples: list[Any] = []
        self.sketch = (
            QuantileSketch()
            if request.quantiles and not request.return_samples
            else None
        )

    def add(self, outputs: tf.Tensor) -> None:
        """Takes a block [rows, samples, ...]."""
        values = self.head.probabilities(outputs)
        if self.state is None:
            self.state = _accumulate.start(values, self.head.task)
        else:
            self.state = _accumulate.advance(self.state, values, self.head.task)
        if self.request.return_samples:
            self.samples.append(np.swapaxes(values.numpy(), 0, 1))
        if self.sketch is not None:
            self.sketch.update(np.swapaxes(values.numpy(), 0, 1))

    def finish(self, first_row: int) -> Collected:
        """Returns the statistics, after checking that they are finite."""
        assert self.state is not None
        moments = _accumulate.finish(self.state)
        _data.check_finite(moments.mean, "the outputs", first_row)
        samples = np.concatenate(self.samples) if self.samples else None
        quantiles = None
        levels = self.request.quantiles
        if levels is not None and self.sketch is not None:
            quantiles = self.sketch.quantile(levels)
        elif levels is not None:
            quantiles = np.quantile(np.asarray(samples), levels, axis=0)
        return Collected(moments, samples, quantiles)


def _predictive(
    head: Head, parts: Sequence[Collected], stats: Stats, request: Request
) -> Predictive:
    def joined(name: str, axis: int = 0) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays, axis)

    def moment(name: str) -> Any:
        arrays = [getattr(part.moments, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    regression = head.task == "regression"
    variance, sampled = moment("variance"), moment("sampled_variance")
    if sampled is not None:
        stats = dataclasses.replace(
            stats, variance_reduction=_ratio(variance, sampled)
        )
    return Predictive(
        task=head.task,
        mean=moment("mean"),
        variance=variance,
        stats=stats,
        samples=joined("samples", axis=1),
        quantile_levels=request.quantiles,
        quantile_values=joined("quantiles", axis=1),
        mean_entropy=moment("mean_entropy"),
        vote_counts=moment("vote_counts"),
        noise_precision=request.noise_precision if regression else None,
        sampled_variance=sampled,
    )


def _ratio(whole: Any, part: Any) -> float:
    """Returns a ratio of means; infinite if nothing is left."""
    above, below = (float(np.mean(x, dtype=np.float64)) for x in (whole, part))
    return above / below if below else math.inf


def _blocks(num_samples: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the first sample and the number of samples of each step."""
    for first in range(0, num_samples, size):
        yield first, min(size, num_samples - first)
