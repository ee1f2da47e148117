# SPDX-License-Identifier: Apache-2.0
"""A prediction by samples under way.

batch of rows --prefix--> cut values, in tiles of rows
tile --suffix, in blocks of samples--> outputs --readout--> statistics

With a tolerance, rows whose mean is known well enough leave their tile, and the
rest goes on with the next block of samples.
"""

import contextlib
import copy
import dataclasses
import functools
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.warn import warn_user
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import say_once
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.prediction import constant_samples
from keras_bayesdrop.prediction.distribute.workers import gather_rows
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.base import Totals
from keras_bayesdrop.prediction.methods.sampling import Sampled
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.collect import join
from keras_bayesdrop.prediction.sampling.drawer import Drawer
from keras_bayesdrop.prediction.sampling.drawer import Tally
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.geometry import choose_geometry
from keras_bayesdrop.prediction.sampling.numbered_rows import numbered_rows
from keras_bayesdrop.prediction.sampling.passes import Passes
from keras_bayesdrop.prediction.sampling.readout import Readout
from keras_bayesdrop.prediction.sampling.readout import SampleReadout
from keras_bayesdrop.prediction.sampling.repeats import is_balanced
from keras_bayesdrop.prediction.sampling.repeats import warn_of_repeats
from keras_bayesdrop.prediction.sampling.result import engine_steps
from keras_bayesdrop.prediction.sampling.result import predictives
from keras_bayesdrop.prediction.sampling.row_mixing import why_rows_mix
from keras_bayesdrop.prediction.sampling.tiles import Tile
from keras_bayesdrop.prediction.sampling.tiles import tile_of
from keras_bayesdrop.prediction.sampling.tolerance import warn_if_not_adaptive
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK
from keras_bayesdrop.random.philox import seed_to_key


class SamplingRun(Run):
    """A prediction by samples.

    Args:
        job: The prediction.
        choices: Masks, engine and tolerance.
        plan: The plan to sample, by default that of the whole model.
        readout: Reads the outputs of the plan, by default as samples.
    """

    def __init__(
        self,
        job: Job,
        choices: Sampled,
        plan: Plan | None = None,
        readout: Readout | None = None,
    ) -> None:
        self.plan = job.plan if plan is None else plan
        self.plan.require_samples(allow_hidden_noise=True)
        self.num_replicas = job.request.num_replicas
        self.readings = job.readings
        self._job = job
        self._request = job.request
        self._choices = choices
        self._rule = choices.stopping_rule()
        engine, self._reason = choose_engine(
            self.plan, choices.engine, choices.shared
        )
        self._drawer = Drawer(
            job.model,
            self.plan,
            engine,
            _key(job.request.seed),
            choices.mask_rule,
            job.request,
            job.readings.logit_noise,
        )
        self._check_one_at_a_time()
        self._readout = SampleReadout(job) if readout is None else readout
        self._collected: list[list[Collected]] = [[] for _ in job.heads]
        self._geometries: dict[tuple[int, str], Geometry] = {}
        # Whether workers share the samples of a batch, and not its rows.
        self._share_samples = False
        # Some rows of which no sample differs from another, if there are any.
        self._constant_rows: Tile | None = None
        # Which engine runs each step, when that is known.
        self._steps: tuple[EngineStep, ...] | None = None
        if self._rule is not None and self._readout.explains_constant:
            balanced = is_balanced(self.plan, choices.mask_rule)
            warn_if_not_adaptive(self._rule, job.heads, balanced)
        warn_of_repeats(self.plan, job.model.name, job.request.num_samples)

    def _check_one_at_a_time(self) -> None:
        """Says once per model that samples run one at a time."""
        plan, model = self.plan, self._job.model
        if not plan.one_at_a_time or plan.mixes_rows:
            return
        if self._request.replicas is not None:
            plan.require_folding(allow_hidden_noise=True)
        if say_once(model, "one at a time"):
            warn_user(
                f"Samples of model `{model.name}` run one at a time, which is "
                f"slower: {plan.one_at_a_time}."
            )

    def check_rows(self, inputs: Any) -> bool:
        """Checks that rows do not influence each other, once per program.

        If they do, samples run one at a time, in the caller's own batches.
        """
        if self.plan.mixes_rows:
            self._accept_mixing()
            return True
        if self.plan.fixed_batch:
            return True  # There is no other batch that it could be tried on.
        reason, unordered, known = why_rows_mix(
            self._drawer, self._geometry, inputs
        )
        if not reason:
            return known
        self.plan = self.plan.alone(reason, unordered)
        engine, self._reason = choose_engine(
            self.plan, self._choices.engine, self._choices.shared
        )
        self._drawer = dataclasses.replace(
            self._drawer, plan=self.plan, engine=engine
        )
        self._accept_mixing()
        return known

    def again(self, request: Request) -> Run:
        """Returns a run like this one, which has predicted nothing."""
        run = copy.copy(self)
        if request != self._request:
            run._request = request
            run._job = dataclasses.replace(self._job, request=request)
        run._drawer = dataclasses.replace(
            self._drawer,
            request=request,
            key=_key(request.seed),
            tally=Tally(),
        )
        run._readout = self._readout.again(run._job)
        run._collected = [[] for _ in self._collected]
        run._constant_rows = None
        return run

    def _accept_mixing(self) -> None:
        """Warns of rows that depend on their batch; refuses what needs none."""
        name, why = self._job.model.name, self.plan.one_at_a_time
        self._readout.check_mixing(self.plan)
        for asked, value in (
            ("tolerance", self._rule),
            ("a distribution strategy", self._request.replicas),
        ):
            if value:
                raise PlanError(
                    f"Rows of model `{name}` depend on the rest of their batch "
                    f"({why}), so that no row can be left out or moved. "
                    f"Expected no {asked}. Received: {asked}"
                )
        warn_user(
            f"Rows of model `{name}` depend on the rest of their batch "
            f"({why}): a prediction is that of a row among the others of its "
            "batch, as in `model.predict`, and changes with `batch_size`. "
            "Samples run one at a time."
        )

    def reserve(self, num_rows: int) -> None:
        """Makes room for what is kept of so many rows, or raises."""
        self._check_row_numbers(num_rows)
        self._readout.reserve(num_rows)

    def _check_row_numbers(self, num_rows: int) -> None:
        """Raises if rows up to this one have numbers without counters."""
        if self._choices.shared:
            return
        most, first = numbered_rows(self.plan), self._request.first_row
        if first + num_rows > most:
            raise BayesdropError(
                "Invalid value for argument `first_row`. Expected first_row + "
                f"rows of at most {most}: masks of later rows would repeat "
                f"those of others. Received: first_row={first}, {num_rows} rows"
            )

    def open(self, files: contextlib.ExitStack) -> None:
        """Opens the files that samples are written to."""
        self._readout.open(files)

    def close(self, num_rows: int) -> None:
        """Ends what is kept, while its files are open."""
        self._readout.close(num_rows)

    def steps(self, num_rows: int) -> int:
        """Returns how many steps a batch takes.

        0 if it depends on what comes out, or on what other workers do.
        """
        if self._rule is not None or self._request.workers is not None:
            return 0
        geometry = self._geometry(num_rows)
        tiles = math.ceil(num_rows / geometry.tile_rows)
        blocks = math.ceil(self._request.num_samples / geometry.samples)
        return tiles * blocks * self._readout.known_passes(geometry.tile_rows)

    def _geometry(self, num_rows: int) -> Geometry:
        """Returns the geometry for so many rows, chosen once for a plan."""
        key = (num_rows, self.plan.one_at_a_time)
        known = self._geometries.get(key)
        if known is None:
            known = self._geometries[key] = self._readout.geometry(
                self._choose, self.plan, self._drawer.engine, num_rows
            )
        return known

    def _choose(
        self, plan: Plan, steps: Sequence[Step], num_rows: int, devices: int
    ) -> Geometry:
        samples = self._request.num_samples
        if self._rule is not None:
            # Rows may stop after each block of samples.
            samples = min(samples, SAMPLES_PER_BLOCK)
        return choose_geometry(
            plan,
            steps,
            self._request.batch_size,
            num_rows,
            samples,
            self._choices.shared,
            devices,
        )

    def add(self, batch: Batch, step: Callable[[], None]) -> list[Any]:
        """Predicts a batch of rows."""
        self.reserve(batch.first_row + batch.num_rows)
        workers = self._request.workers
        if workers is None or batch.num_rows < workers.num_workers:
            self._share_samples = workers is not None
            outputs = self._predict(batch, step)
        else:
            self._share_samples = False
            mine = workers.share_rows(batch)
            outputs = gather_rows(workers, lambda: self._predict(mine, step))
        for collected, parts in zip(outputs, self._collected, strict=True):
            parts.append(collected)
        return [each.moments.mean for each in outputs]

    def _predict(
        self, batch: Batch, step: Callable[[], None]
    ) -> list[Collected]:
        """Predicts rows of a batch, in tiles."""
        geometry = self._geometry(batch.num_rows)
        inputs = self.plan.flatten(batch.inputs)
        cut = self._drawer.prefix(inputs, batch.num_rows)
        rows = Tile(cut, batch.first_row, batch.num_rows)
        passes = Passes(
            self._drawer,
            self._readout,
            self._geometry,
            len(self._job.heads),
            self._rule,
            self._share_samples,
            is_balanced(self.plan, self._drawer.masks),
        )
        parts: list[list[Collected]] = [[] for _ in self._job.heads]
        for begin in range(0, batch.num_rows, geometry.tile_rows):
            end = min(begin + geometry.tile_rows, batch.num_rows)
            tile = tile_of(self.plan, rows, begin, end)
            outputs = passes.sample(tile, geometry, step)
            for part, collected in zip(parts, outputs, strict=True):
                part.append(collected)
        joined = [join(part) for part in parts]
        if self._constant_rows is None and not _varies(joined):
            some = constant_samples.ROWS
            if self.plan.mixes_rows or some > batch.num_rows:
                some = batch.num_rows
            self._constant_rows = tile_of(self.plan, rows, 0, some)
        return joined

    def result(self, totals: Totals) -> Any:
        """Returns a `Predictive`, or a structure of them."""
        collected = [join(parts) for parts in self._collected]
        self._collected = [[] for _ in self._collected]
        if self._readout.explains_constant and not _varies(collected):
            self._warn_of_constant_samples()
        if self._steps is None:
            self._steps = engine_steps(
                self.plan, self._drawer.engine, self._reason
            )
        return self.readings.pack(
            predictives(
                self._job,
                self._choices,
                self._readout.finish(collected),
                self._readout.method,
                self._readout.engine_steps(self.plan, self._steps),
                totals,
                self._drawer,
            )
        )

    def _warn_of_constant_samples(self) -> None:
        """Warns that no sample differs from another, and says where."""
        rows = self._constant_rows
        if rows is None:
            return
        path = constant_samples.first_constant_layer(
            self.plan,
            rows.cut,
            self._drawer.key,
            self._request.first_row + rows.first_row,
            rows.num_rows,
            self._choices.mask_rule,
        )
        if not path:
            return  # By chance: other samples differ.
        warn_user(
            f"Noise of model `{self._job.model.name}` is drawn, and all "
            f"samples are the same: the output of `{path}` does not vary. A "
            "standard deviation of 0 says nothing here."
        )


@functools.lru_cache(maxsize=256)
def _key(seed: int) -> tf.Tensor:
    """Returns the key of the counters; the same few come at every call."""
    return tf.constant(seed_to_key(seed), tf.uint64)


def _varies(collected: Sequence[Collected]) -> bool:
    """Returns whether samples of some row differ from each other."""
    return any(each.moments.variance.any() for each in collected)
