# SPDX-License-Identifier: Apache-2.0
"""A prediction under way: batches of rows in, one `Predictive` per output out.

batch of rows --prefix--> cut values, in tiles of rows
tile --suffix, in blocks of samples--> outputs --> running statistics

With a tolerance, rows whose mean is known well enough leave their tile, and the
rest goes on with the next block of samples.
"""

import contextlib
import dataclasses
import functools
import math
import warnings
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.engines import Engine
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.engines import assign_steps
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import found_out
from keras_bayesdrop.graph.cache import say_once
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction import dead
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.detection import Head
from keras_bayesdrop.prediction.detection import resolve_heads
from keras_bayesdrop.prediction.distribute.workers import gather_rows
from keras_bayesdrop.prediction.distribute.workers import gather_samples
from keras_bayesdrop.prediction.progress import Progress
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.row_check import rows_mix
from keras_bayesdrop.prediction.sampling.collect import SKETCH_BYTES
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.collect import Collector
from keras_bayesdrop.prediction.sampling.collect import count_passes
from keras_bayesdrop.prediction.sampling.collect import join
from keras_bayesdrop.prediction.sampling.collect import join_passes
from keras_bayesdrop.prediction.sampling.collect import sketch_elements
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.geometry import batch_bytes
from keras_bayesdrop.prediction.sampling.geometry import choose_geometry
from keras_bayesdrop.prediction.sampling.kept_samples import KeptSamples
from keras_bayesdrop.prediction.sampling.kept_samples import Size
from keras_bayesdrop.prediction.sampling.output_files import by_name
from keras_bayesdrop.prediction.sampling.output_files import files_of
from keras_bayesdrop.prediction.sampling.programs import Sampler
from keras_bayesdrop.prediction.sampling.programs import sampler_for
from keras_bayesdrop.prediction.sampling.tolerance import checkpoints
from keras_bayesdrop.prediction.sampling.tolerance import spans
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Head as PredictiveHead
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import Stats
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.random.philox import count_rows_with_counters
from keras_bayesdrop.random.philox import seed_to_key

# Bounds on the units of a noise site.
_MOST_UNITS = 2**30
_UNITS_PER_ELEMENT = 1024


class Piece(NamedTuple):
    """Rows of a tile that go through the suffix together.

    Attributes:
        cut: What the prefix made of them.
        begin: The first of them in the tile.
        num_rows: How many there are.
    """

    cut: Sequence[tf.Tensor | None]
    begin: int
    num_rows: int


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
        self.plan.require_samples(allow_hidden_noise=True)
        self.engine: Engine
        self.engine, self.reason = choose_engine(self.plan, engine)
        self._check_one_at_a_time()
        self.heads: list[Head] = resolve_heads(
            model,
            num_outputs or len(self.plan.outputs),
            task,
            from_logits,
            self.plan.pack,
        )
        self.key = tf.constant(seed_to_key(request.seed), tf.uint64)
        self.collected: list[list[Collected]] = [[] for _ in self.heads]
        # Whether workers share the samples of a batch, and not its rows.
        self.share_samples = False
        self.num_rows = 0
        self.largest_batch = 0
        # Rows of which no sample differs from another, if there are any.
        self.first_rows: Piece | None = None
        self.most_elements = sketch_elements(
            request.num_samples,
            max(SKETCH_BYTES, batch_bytes(plan, request.batch_size)),
            len(self.heads),
        )
        self.warned = False
        self.kept: KeptSamples | None = None
        self.kept_quantiles: list[Any] = []
        if request.return_samples and request.workers is None:
            if all(value in plan.rows for value in plan.outputs):
                self.kept = self._kept_samples()
            elif request.samples_path is not None:
                raise PlanError(
                    "A file of samples needs outputs with one row for each "
                    "of `x`. Expected return_samples=True, or a model with "
                    "such outputs. Received: return_samples="
                    f"'{request.samples_path}', outputs of shape "
                    f"{[tuple(plan.specs[n].shape) for n in plan.outputs]}"
                )

    def _check_one_at_a_time(self) -> None:
        """Says once per model that samples run one at a time."""
        if not self.plan.one_at_a_time or self.plan.mixes_rows:
            return
        if self.request.replicas is not None:
            self.plan.require_folding(allow_hidden_noise=True)
        if say_once(self.model, "one at a time"):
            warnings.warn(
                f"Samples of model `{self.model.name}` run one at a time, "
                f"which is slower: {self.plan.one_at_a_time}.",
                BayesdropWarning,
                stacklevel=5,
            )

    def check_rows(self, inputs: Any) -> None:
        """Checks that rows do not influence each other, once per program.

        If they do, samples run one at a time, and batches as they are given.

        Args:
            inputs: Structure of arrays or tensors, rows of `x`.
        """
        if self.plan.mixes_rows:
            self._accept_mixing()
            return
        if self.plan.fixed_batch:
            return  # There is no other batch that it could be tried on.
        shared = self.request.shared
        sampler = sampler_for(self.model, self.plan, self.engine, shared)

        def mix(watch: bool) -> bool | None:
            first_row = functools.partial(self._first_row, sampler, watch)
            return found_out(
                self.model,
                ("rows mix", self.plan.signature, self.engine.key, watch),
                lambda: rows_mix(first_row, inputs),
            )

        mixed = mix(watch=False)
        unordered = self.plan.has_entries and bool(mix(watch=True))
        if mixed:
            reason = "rows of a batch influence each other"
            self._run_alone(reason, unordered)
        elif unordered:
            reason = "noise is on values with rows in an order of their own"
            self._run_alone(reason, unordered)

    def _first_row(
        self, sampler: Sampler, watch: bool, inputs: Any
    ) -> list[tf.Tensor]:
        """Predicts a few rows; returns what belongs to the first of them.

        Args:
            sampler: The programs.
            watch: Whether to look at what noise is put on, not at outputs.
            inputs: Structure of tensors.
        """
        flat = self.plan.flatten(inputs)
        num_rows = int(flat[0].shape[0])
        engine: Engine = Reference() if watch else self.engine
        outputs = sampler.suffix(
            self.plan,
            engine,
            sampler.prefix(self.plan, engine, flat),
            1 if watch else self._geometry(num_rows).num_blocks,
            self.key,
            tf.constant(0, tf.int64),
            tf.constant(1 if self.plan.one_at_a_time else 2, tf.int32),
            tf.constant(self.request.first_row, tf.int64),
            tf.constant(num_rows, tf.int32),
            watch=watch,
        )
        count = len(self.plan.outputs)
        if watch:
            return outputs[count:]
        return [
            output[: max(1, int(output.shape[0]) // num_rows)]
            for output in outputs
        ]

    def _run_alone(self, reason: str, unordered: bool) -> None:
        """Goes on with one sample at a time and the caller's own batches."""
        self.plan = self.plan.alone(reason, unordered)
        self.engine, self.reason = choose_engine(self.plan, "auto")
        self._accept_mixing()

    def _accept_mixing(self) -> None:
        """Warns of rows that depend on their batch; refuses what needs none."""
        request = self.request
        for name, asked in (
            ("tolerance", request.tolerance),
            ("a distribution strategy", request.replicas),
        ):
            if asked:
                raise PlanError(
                    f"Rows of model `{self.model.name}` depend on the rest of "
                    f"their batch ({self.plan.one_at_a_time}), so that no row "
                    f"can be left out or moved. Expected no {name}. Received: "
                    f"{name}"
                )
        warnings.warn(
            f"Rows of model `{self.model.name}` depend on the rest of their "
            f"batch ({self.plan.one_at_a_time}): a prediction is that of a row "
            "among the others of its batch, as in `model.predict`, and changes "
            "with `batch_size`. Samples run one at a time.",
            BayesdropWarning,
            stacklevel=5,
        )

    def _check_row_numbers(self, num_rows: int) -> None:
        """Raises if rows up to this one have numbers without counters."""
        if self.request.shared:
            return
        most = _numbered_rows(self.plan)
        if self.request.first_row + num_rows > most:
            raise BayesdropError(
                "Invalid value for argument `first_row`. Expected first_row + "
                f"rows of at most {most}: masks of later rows would repeat "
                "those of others. Received: "
                f"first_row={self.request.first_row}, {num_rows} rows"
            )

    def _kept_samples(self) -> KeptSamples:
        path, paths = self.request.samples_path, None
        if path is not None:
            numbers = self.plan.pack(list(range(len(self.heads))))
            names = by_name(self.model, numbers)
            files = files_of(path, list(names))
            places = {names[name]: file for name, file in files.items()}
            paths = [places[number] for number in range(len(self.heads))]
        sizes = []
        for value in self.plan.outputs:
            spec = self.plan.specs[value]
            wide = tf.as_dtype(spec.dtype) == tf.float64
            sizes.append(Size(self._known_outputs(value), 8 if wide else 4))
        return KeptSamples(self.request.num_samples, sizes, paths)

    def _known_outputs(self, value: int) -> int | None:
        """Returns how many numbers a row of a value has, if that is known."""
        dims = tuple(self.plan.specs[value].shape)[1:]
        return None if None in dims else math.prod(dims)

    def begin(self, num_rows: int | None, files: contextlib.ExitStack) -> None:
        """Makes room for what is kept, or raises before anything is drawn.

        Args:
            num_rows: How many there will be, if that is known.
            files: Holds files that are written while it is open.
        """
        if num_rows is not None:
            self.reserve(num_rows)
        if self.kept is not None:
            self.kept.open(files)

    def reserve(self, num_rows: int) -> None:
        """Makes room for what is kept of so many rows, or raises."""
        self._check_row_numbers(num_rows)
        if self.kept is not None:
            self.kept.reserve(num_rows)

    def end(self) -> None:
        """Ends what is kept, while its files are open."""
        if self.kept is not None:
            self.kept_quantiles = self.kept.close(
                self.num_rows, self.request.quantiles
            )

    def count_steps(
        self, num_rows: int, rows_per_batch: int, batches: int | None
    ) -> int:
        """Returns how many steps predicting so many rows takes.

        0 if it depends on what comes out, or on what other workers do.
        """
        if self.request.tolerance or self.request.workers:
            return 0
        if batches is not None:
            num_rows = min(num_rows, batches * rows_per_batch)
        full, rest = divmod(num_rows, rows_per_batch)
        total = 0
        for count, rows in ((full, rows_per_batch), (1, rest)):
            if count and rows:
                geometry = self._geometry(rows)
                tiles = math.ceil(rows / geometry.tile_rows)
                blocks = math.ceil(self.request.num_samples / geometry.samples)
                passes = self._known_passes(geometry.tile_rows)
                total += count * tiles * blocks * passes
        return total

    @property
    def _has_sketches(self) -> bool:
        request = self.request
        return request.quantiles is not None and not request.return_samples

    def _known_passes(self, num_rows: int) -> int:
        """Returns how often samples are drawn, as far as that is known."""
        if not self._has_sketches:
            return 1
        return max(
            count_passes(
                num_rows, self._known_outputs(value) or 1, self.most_elements
            )
            for value in self.plan.outputs
        )

    def _geometry(self, num_rows: int) -> Geometry:
        if self._has_sketches and not self.plan.one_at_a_time:
            # Fewer rows at once, so that their sketches fit.
            most = max(
                self._known_outputs(value) or 1 for value in self.plan.outputs
            )
            num_rows = min(num_rows, max(1, self.most_elements // most))
        return choose_geometry(
            self.plan,
            self.engine.steps(self.plan),
            self.request.batch_size,
            num_rows,
            self.request.samples_at_once,
            self.request.shared,
            self.request.num_devices,
        )

    def add(
        self, batch: input_data.Batch, progress: Progress, checked: bool
    ) -> None:
        """Predicts one batch of rows."""
        if not checked:
            input_data.check_shapes(self.model, batch.inputs)
            for leaf in keras.tree.flatten(batch.inputs):
                input_data.check_finite(leaf, "the inputs `x`", batch.first_row)
        self._check_row_numbers(batch.first_row + batch.num_rows)
        if self.kept is not None:
            self.kept.reserve(batch.first_row + batch.num_rows)
        progress.begin_batch()
        workers = self.request.workers
        if workers is None or batch.num_rows < workers.num_workers:
            self.share_samples = workers is not None
            made = self._predict(batch, progress)
        else:
            self.share_samples = False
            mine = workers.share_rows(batch)
            made = gather_rows(workers, lambda: self._predict(mine, progress))
        for collected, kept in zip(made, self.collected, strict=True):
            kept.append(collected)
        self.num_rows += batch.num_rows
        self.largest_batch = max(self.largest_batch, batch.num_rows)
        progress.end_batch(
            lambda: self.plan.pack([each.moments.mean for each in made])
        )

    def _predict(
        self, batch: input_data.Batch, progress: Progress
    ) -> list[Collected]:
        """Predicts some rows of a batch, or all, in tiles."""
        geometry = self._geometry(batch.num_rows)
        inputs = self.plan.flatten(batch.inputs)
        sampler, engine = self._sampler(batch.num_rows, 1)
        cut = sampler.prefix(self.plan, engine, inputs)
        parts: list[list[Collected]] = [[] for _ in self.heads]
        for begin in range(0, batch.num_rows, geometry.tile_rows):
            end = min(begin + geometry.tile_rows, batch.num_rows)
            tile = cut
            if end - begin < batch.num_rows:
                tile = self._rows(cut, batch.num_rows, slice(begin, end))
            first_row = batch.first_row + begin
            made = self._tile(tile, first_row, end - begin, geometry, progress)
            for part, collected in zip(parts, made, strict=True):
                part.append(collected)
        whole = [join(part) for part in parts]
        if self.first_rows is None and not _varies(whole):
            self._keep_rows(cut, batch)
        return whole

    def _keep_rows(
        self, cut: Sequence[tf.Tensor | None], batch: input_data.Batch
    ) -> None:
        """Keeps some rows, to find out why nothing varies if nothing does."""
        count = min(batch.num_rows, dead.ROWS)
        if count < batch.num_rows and not self.plan.mixes_rows:
            cut = self._rows(cut, batch.num_rows, slice(0, count))
        else:
            count = batch.num_rows
        self.first_rows = Piece(cut, batch.first_row, count)

    def _rows(
        self, cut: Sequence[tf.Tensor | None], num_rows: int, rows: Any
    ) -> list[tf.Tensor | None]:
        """Cuts rows out of what the prefix returned, values and masks.

        Args:
            cut: What it returned.
            num_rows: For how many rows.
            rows: Slice with both ends, or indexes.
        """

        def rows_of(number: int, value: Any) -> Any:
            if value is None or number in self.plan.batchless:
                return value
            per_row = value.shape[0] // num_rows
            if isinstance(rows, slice):
                return value[rows.start * per_row : rows.stop * per_row]
            entries = rows[:, np.newaxis] * per_row + np.arange(per_row)
            return tf.gather(value, entries.reshape(-1))

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
    ) -> list[Collected]:
        """Draws the samples of some rows.

        Quantiles of more outputs than there is memory for are made in passes
        over the same samples: masks are counters.
        """
        stops: list[Any] = []
        made = [
            self._pass(cut, first_row, num_rows, geometry, progress, 0, stops)
        ]
        passes = max(each.passes for each in made[0])
        if passes > 1:
            self._warn_of_passes(passes)
        for number in range(1, passes):
            made.append(
                self._pass(
                    cut, first_row, num_rows, geometry, progress, number, stops
                )
            )
        return [join_passes(each) for each in zip(*made, strict=True)]

    def _warn_of_passes(self, passes: int) -> None:
        if self.warned:
            return
        self.warned = True
        warnings.warn(
            "The quantiles of a row's outputs do not fit into the memory for "
            f"them: all samples are drawn {passes} times, for a part of the "
            "outputs each time. A larger `batch_size` gives more memory; "
            "fewer samples than 1024 take less; return_samples='samples.npy' "
            "draws samples once, and keeps them in a file.",
            BayesdropWarning,
            stacklevel=2,
        )

    def _pass(
        self,
        cut: Sequence[tf.Tensor | None],
        first_row: int,
        num_rows: int,
        geometry: Geometry,
        progress: Progress,
        number: int,
        stops: list[Any],
    ) -> list[Collected]:
        """Draws the samples of some rows once.

        Args:
            cut: What the prefix made of them.
            first_row: Number of the first.
            num_rows: How many there are.
            geometry: Rows and samples of a step.
            progress: Is told of each step.
            number: Of the pass. The first one decides when rows stop.
            stops: Which rows stop at each checkpoint, added by the first pass
                and read by the others.
        """
        request = self.request
        collectors = [
            self._collector(output, first_row, number)
            for output in range(len(self.heads))
        ]
        parts: list[list[Collected]] = [[] for _ in self.heads]
        rows = np.arange(num_rows)
        stopped = []
        drawn = 0
        for step, until in enumerate(
            checkpoints(request.num_samples, request.tolerance is not None)
        ):
            pieces = self._pieces(cut, num_rows, rows)
            if len(rows) < num_rows:
                # Fewer rows: more samples of each fit.
                largest = max(piece.num_rows for piece in pieces)
                geometry = self._geometry(largest)
            for first, count in _blocks(drawn, until, geometry.samples):
                outputs = self._draw(
                    pieces, rows, geometry, first, count, first_row
                )
                finished = self._finished(outputs)
                for collector, output in zip(collectors, finished, strict=True):
                    collector.add(output)
                progress.step()
            drawn = until
            if not number:
                stops.append(self._done(collectors, drawn, len(rows)))
            done = stops[step]
            if not done.any():
                continue
            leave, stay = np.flatnonzero(done), np.flatnonzero(~done)
            stopped.append(rows[leave])
            numbers = first_row + rows[leave]
            for part, collector in zip(parts, collectors, strict=True):
                leaving = collector.take(leave) if len(stay) else collector
                part.append(leaving.finish(_numbers(numbers, leaving)))
            if not len(stay):
                break
            collectors = [collector.take(stay) for collector in collectors]
            rows = rows[stay]
        order = None
        if len(stopped) > 1:
            order = np.argsort(np.concatenate(stopped))
        return [join(part, order) for part in parts]

    def _pieces(
        self, cut: Sequence[tf.Tensor | None], num_rows: int, rows: Any
    ) -> list[Piece]:
        """Cuts the rows that go on out of a tile.

        With shared masks it does not matter which they are. Otherwise a row
        has the noise of its number: rows stay in ranges.
        """
        if len(rows) == num_rows:
            return [Piece(cut, 0, num_rows)]
        if self.request.shared:
            return [Piece(self._rows(cut, num_rows, rows), 0, len(rows))]
        return [
            Piece(
                self._rows(cut, num_rows, slice(begin, end)),
                begin,
                end - begin,
            )
            for begin, end in spans(rows)
        ]

    def _draw(
        self,
        pieces: Sequence[Piece],
        rows: Any,
        geometry: Geometry,
        first: int,
        count: int,
        first_row: int,
    ) -> list[tf.Tensor]:
        """Draws some samples of some rows: [rows, samples, ...]."""
        made = [
            self._shared_suffix(
                piece, geometry.num_blocks, first, count, first_row
            )
            for piece in pieces
        ]
        covered = sum(piece.num_rows for piece in pieces)
        if len(pieces) == 1 and covered == len(rows):
            return made[0]
        numbers = np.concatenate(
            [piece.begin + np.arange(piece.num_rows) for piece in pieces]
        )
        places = np.searchsorted(numbers, rows)
        return [
            tf.gather(tf.concat(outputs, axis=0), places)
            for outputs in zip(*made, strict=True)
        ]

    def _shared_suffix(
        self,
        piece: Piece,
        num_blocks: int,
        first: int,
        count: int,
        first_row: int,
    ) -> list[tf.Tensor]:
        """Draws some samples of a piece, with the other workers or alone."""
        workers = self.request.workers
        if workers is None or not self.share_samples:
            return self._suffix(piece, num_blocks, first, count, first_row)
        begin, number = workers.share_samples(first, count)

        def draw() -> list[tf.Tensor]:
            if not number:
                return []
            return self._suffix(piece, num_blocks, begin, number, first_row)

        return gather_samples(workers, draw)

    def _suffix(
        self,
        piece: Piece,
        num_blocks: int,
        first: int,
        count: int,
        first_row: int,
    ) -> list[tf.Tensor]:
        """Draws some samples of a piece, on the devices of this process."""
        number = 0
        if not self.request.shared:
            number = self.request.first_row + first_row + piece.begin
        sampler, engine = self._sampler(piece.num_rows, count)
        return sampler.suffix(
            self.plan,
            engine,
            piece.cut,
            num_blocks,
            self.key,
            tf.constant(first, tf.int64),
            tf.constant(count, tf.int32),
            tf.constant(number, tf.int64),
            tf.constant(piece.num_rows, tf.int32),
        )

    def _sampler(
        self, num_rows: int, num_samples: int
    ) -> tuple[Sampler, Engine]:
        """Returns the programs for so many rows and samples."""
        engine, request = self.engine, self.request
        if request.replicas is not None:
            engine = request.replicas.spread(engine, num_rows, num_samples)
        sampler = sampler_for(self.model, self.plan, engine, request.shared)
        return sampler, engine

    def _done(
        self, collectors: Sequence[Any], drawn: int, num_rows: int
    ) -> Any:
        """Returns, per row, whether it has samples enough in all outputs."""
        request = self.request
        done = np.ones(num_rows, bool)
        if request.tolerance is None or drawn == request.num_samples:
            return done
        for collector in collectors:
            done &= request.tolerance.met(
                collector.moments(),
                drawn,
                predictive_head(collector.head, request),
            )
        return done

    def _collector(self, output: int, first_row: int, number: int) -> Any:
        request, write = self.request, None
        if self.kept is not None:
            kept = self.kept.outputs[output]

            def write(first_sample: int, block: Any) -> None:
                kept.write(first_sample, first_row, block)

        return Collector(
            self.heads[output],
            request.quantiles,
            bool(request.return_samples),
            self.most_elements,
            number,
            write,
        )

    def _finished(self, outputs: list[tf.Tensor]) -> list[Any]:
        """Returns, per output of the model, what a collector takes."""
        return outputs

    def result(self, seconds: float) -> Any:
        """Returns the `Predictive` of each output, in the model's structure."""
        request = self.request
        collected = [join(parts) for parts in self.collected]
        if not _varies(collected):
            self._warn_of_dead_network()
        if self.kept is not None:
            collected = [
                dataclasses.replace(
                    each, samples=samples.array(), quantiles=quantiles
                )
                for each, samples, quantiles in zip(
                    collected,
                    self.kept.outputs,
                    self.kept_quantiles,
                    strict=True,
                )
            ]
        stats = Stats(
            num_samples=request.num_samples,
            num_rows=self.num_rows,
            seed=request.seed,
            masks="shared" if request.shared else "independent",
            method=self.method,
            engine=self._engine_steps(),
            seconds=seconds,
            samples_per_second=int(collected[0].num_samples.sum()) / seconds,
            batch_size=self.largest_batch,
            num_replicas=request.num_replicas,
        )
        return self.plan.pack(
            [
                _predictive(head, each, stats, request)
                for head, each in zip(self.heads, collected, strict=True)
            ]
        )

    def _warn_of_dead_network(self) -> None:
        """Warns that no sample differs from another, and says where."""
        if self.first_rows is None:
            return
        rows = self.first_rows
        path = dead.first_constant_layer(
            self.plan,
            rows.cut,
            self.key,
            self.request.first_row + rows.begin,
            rows.num_rows,
            self.request.shared,
        )
        if not path:
            return  # By chance: other samples differ.
        warnings.warn(
            f"Noise of model `{self.model.name}` is drawn, and all samples are "
            f"the same: the output of `{path}` does not vary. A standard "
            "deviation of 0 says nothing here.",
            BayesdropWarning,
            stacklevel=4,
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


def predictive_head(head: Head, request: Request) -> PredictiveHead:
    """Returns the head that a result holds."""
    if head.task == "regression":
        return Regression(noise_precision=request.noise_precision)
    known: PredictiveHead = heads.get(head.task)
    return known


def _predictive(
    head: Head, collected: Collected, stats: Stats, request: Request
) -> Predictive:
    moments = collected.moments
    sampled = moments.sampled_variance
    if sampled is not None:
        stats = dataclasses.replace(
            stats, variance_reduction=_ratio(moments.variance, sampled)
        )
    # An output may have several rows for one of `x`.
    stats = dataclasses.replace(stats, num_rows=len(moments.mean))
    adaptive = request.tolerance is not None
    return Predictive(
        head=predictive_head(head, request),
        mean=moments.mean,
        variance=moments.variance,
        stats=stats,
        samples=collected.samples,
        quantile_levels=request.quantiles,
        quantile_values=collected.quantiles,
        mean_entropy=moments.mean_entropy,
        vote_counts=moments.vote_counts,
        sampled_variance=sampled,
        num_samples_used=collected.num_samples if adaptive else None,
    )


def _varies(collected: Sequence[Collected]) -> bool:
    """Whether samples of some row differ from each other."""
    return any(each.moments.variance.any() for each in collected)


def _numbers(rows: Any, collector: Any) -> Any:
    """Returns the row in `x` of each row of an output.

    An output may have several rows for one of `x`, or some for all of them.
    """
    count = int(collector.state[1].shape[0])
    if count == len(rows):
        return rows
    return rows[np.arange(count) * len(rows) // count]


def _ratio(whole: Any, part: Any) -> float:
    """Returns a ratio of means; infinite if nothing is left."""
    above, below = (float(np.mean(x, dtype=np.float64)) for x in (whole, part))
    return above / below if below else math.inf


def _numbered_rows(plan: Plan) -> int:
    """Returns how many rows are sure to have masks of their own.

    That depends on the units of the largest noise site. None has 2^30 (64 GB
    of noise a row), nor a thousand times those of the largest value.
    """
    units = _MOST_UNITS
    sizes = [tuple(spec.shape)[1:] for spec in plan.specs]
    if not plan.entries and not any(None in dims for dims in sizes):
        largest = max(math.prod(dims) for dims in sizes)
        units = min(units, _UNITS_PER_ELEMENT * largest)
    return count_rows_with_counters(units)


def _blocks(first: int, until: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the first sample and the number of samples of each step."""
    for begin in range(first, until, size):
        yield begin, min(size, until - begin)
