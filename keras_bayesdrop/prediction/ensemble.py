# SPDX-License-Identifier: Apache-2.0
"""A prediction by several networks under way.

batch of rows --each network--> its prediction of them --mix--> that of the
ensemble

The networks run as they would alone, each with a seed of its own. Rows are
taken in parts, so that the samples that quantiles need fit into memory.
"""

import contextlib
import copy
import dataclasses
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.methods import Job
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.methods import Run
from keras_bayesdrop.prediction.methods import Totals
from keras_bayesdrop.prediction.point import PointRun
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.sampling.collect import SKETCH_BYTES
from keras_bayesdrop.prediction.sampling.geometry import batch_bytes
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch
from keras_bayesdrop.prediction.sampling.readout import Kept
from keras_bayesdrop.prediction.sampling.readout import kept_samples
from keras_bayesdrop.prediction.start import Starter
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.ensemble import mix
from keras_bayesdrop.predictive.rows import join_rows
from keras_bayesdrop.random.seeds import member_seed

# Bytes of a sample of one number, float64 at most.
_NUMBER_BYTES = 8


def _member_request(request: Request, number: int) -> Request:
    """Returns what a network of an ensemble is asked for."""
    needs_samples = request.quantiles is not None or request.return_samples
    return dataclasses.replace(
        request,
        seed=member_seed(request.seed, number),
        quantiles=None,
        return_samples=bool(needs_samples),
        samples_in_parts=True,
    )


def start_ensemble(
    starters: Sequence[Starter],
    method: Method,
    head: Any,
    job: Job,
    example: Any,
) -> Run:
    """Starts a prediction by several networks.

    Args:
        starters: The networks.
        method: How each of them predicts.
        head: What the caller says of the outputs.
        job: The prediction of the first network, with the request of the
            ensemble.
        example: Rows of `x`, or their specs.
    """
    requests = [
        _member_request(job.request, number) for number in range(len(starters))
    ]
    jobs = [
        dataclasses.replace(job, request=requests[0]),
        *(
            starter.job(head, request, example)
            for starter, request in zip(starters[1:], requests[1:], strict=True)
        ),
    ]
    runs = [
        starter.start(method, job)
        for starter, job in zip(starters, jobs, strict=True)
    ]
    return EnsembleRun(job, runs)


class EnsembleRun(Run):
    """A prediction by several networks.

    Args:
        job: The prediction of the first network, with the request of the
            ensemble.
        members: A run of each network.
    """

    def __init__(self, job: Job, members: Sequence[Run]) -> None:
        self._members = members
        self._job = job
        self._request = job.request
        self.readings = job.readings
        self.num_replicas = job.request.num_replicas
        self._check_outputs()
        all_points = all(isinstance(each, PointRun) for each in members)
        self._num_samples = len(members) * (
            1 if all_points else job.request.num_samples
        )
        if self._num_samples < 2:
            raise BayesdropError(
                f"Model `{job.model.name}` has no noise, and one network has "
                "no variance. Expected at least two networks, or noise. "
                "Received: an ensemble of one network without noise"
            )
        self._kept = self._keeper(job.request)
        # Predictions of the rows so far, per output.
        self._parts: list[list[Predictive]] = [[] for _ in job.heads]
        self.plan = self._smallest_plan()

    def _check_outputs(self) -> None:
        """Raises if the networks have outputs of different structures."""
        plans = [member.plan for member in self._members]
        first = _structure(plans[0])
        for number, plan in enumerate(plans):
            if _structure(plan) != first:
                raise BayesdropError(
                    "The networks of an ensemble have different outputs. "
                    f"Expected {first}, as of network 0. Received: "
                    f"{_structure(plan)} of network {number}"
                )

    def _smallest_plan(self) -> Plan:
        """Returns the plan of the network that takes the fewest rows."""
        plans = [member.plan for member in self._members]
        mixing = [plan for plan in plans if plan.mixes_rows or plan.fixed_batch]
        return min(
            mixing or plans,
            key=lambda plan: rows_per_batch(plan, self._request.batch_size, 1),
        )

    def check_rows(self, inputs: Any) -> bool:
        """Checks each network: do its rows influence each other?"""
        known = [member.check_rows(inputs) for member in self._members]
        self.plan = self._smallest_plan()
        return all(known)

    def again(self, request: Request) -> Run:
        """Returns a run like this one, which has predicted nothing."""
        run = copy.copy(self)
        run._request = request
        run._members = [
            member.again(_member_request(request, number))
            for number, member in enumerate(self._members)
        ]
        run._kept = self._keeper(request)
        run._parts = [[] for _ in self._parts]
        return run

    def _keeper(self, request: Request) -> Kept | None:
        """Returns where the samples of all networks are kept, if they are."""
        request = dataclasses.replace(request, num_samples=self._num_samples)
        return kept_samples(dataclasses.replace(self._job, request=request))

    def reserve(self, num_rows: int) -> None:
        """Makes room for what is kept of so many rows, or raises."""
        for member in self._members:
            member.reserve(num_rows)
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

    def steps(self, num_rows: int) -> int:
        """Returns how many steps a batch takes; 0 if that is not known."""
        full, rest = divmod(num_rows, self._rows_at_once(num_rows))
        sizes = [num_rows // (full or 1)] * full + [rest] * bool(rest)
        counts = [
            member.steps(size) for size in sizes for member in self._members
        ]
        return sum(counts) if all(counts) else 0

    def _rows_at_once(self, num_rows: int) -> int:
        """Returns how many rows to take, so that their samples fit."""
        request, plan = self._request, self.plan
        if request.quantiles is None or self._kept is not None:
            return num_rows
        if plan.mixes_rows or plan.fixed_batch:
            return num_rows
        known = [each.known_outputs(plan) or 1 for each in self.readings.each]
        room = max(SKETCH_BYTES, batch_bytes(plan, request.batch_size))
        row = self._num_samples * sum(known) * _NUMBER_BYTES
        return max(1, min(num_rows, int(room // row)))

    def add(self, batch: Batch, step: Callable[[], None]) -> list[Any]:
        """Predicts a batch of rows."""
        self.reserve(batch.first_row + batch.num_rows)
        means: list[list[Any]] = [[] for _ in self._parts]
        for part in batch.cut(self._rows_at_once(batch.num_rows)):
            for number, mixed in enumerate(self._predict(part, step)):
                self._parts[number].append(mixed)
                means[number].append(mixed.mean)
        return [np.concatenate(each) for each in means]

    def check_values(self, means: Sequence[Any]) -> None:
        """Does nothing: each network has checked its own values."""

    def _predict(
        self, batch: Batch, step: Callable[[], None]
    ) -> list[Predictive]:
        """Predicts some rows with every network, and mixes the results."""
        results = []
        for number, member in enumerate(self._members):
            began = time.perf_counter()
            means = member.add(batch, step)
            if not batch.first_row:
                member.check_values(means)
            totals = Totals(
                batch.num_rows, batch.num_rows, time.perf_counter() - began
            )
            results.append(
                [
                    self._keep(number, output, batch, p)
                    for output, p in enumerate(_results(member, totals))
                ]
            )
        levels = None if self._kept is not None else self._request.quantiles
        keep = bool(self._request.return_samples) and self._kept is None
        return [
            Predictive(**mix(members, levels, keep))
            for members in zip(*results, strict=True)
        ]

    def _keep(
        self, number: int, output: int, batch: Batch, p: Predictive
    ) -> Predictive:
        """Writes the samples of a network to where all samples are kept."""
        if self._kept is None:
            return p
        each = self._num_samples // len(self._members)
        blocks = [p.samples, p.noise_samples]
        if p.samples is None:  # a network without noise
            blocks = [_copied(p.mean, each), _copied(p.noise_variance, each)]
        self._kept.write(
            output,
            number * each,
            batch.first_row,
            [block for block in blocks if block is not None],
        )
        return dataclasses.replace(p, samples=None, noise_samples=None)

    def result(self, totals: Totals) -> Any:
        """Returns the `Predictive` of each output, in the model's structure."""
        outputs = []
        for number, parts in enumerate(self._parts):
            p = join_rows(parts)
            changes: dict[str, Any] = {}
            if self._kept is not None:
                changes = self._kept.fields(number)
                changes["quantile_values"] = changes.pop("quantiles")
                changes["quantile_levels"] = self._request.quantiles
            stats = dataclasses.replace(
                p.stats,
                seed=self._request.seed,
                seconds=totals.seconds,
                samples_per_second=self._num_samples
                * totals.num_rows
                / totals.seconds,
                batch_size=totals.largest_batch,
            )
            outputs.append(dataclasses.replace(p, stats=stats, **changes))
        self._parts = [[] for _ in self._parts]
        return self.readings.pack(outputs)


def _results(run: Run, totals: Totals) -> list[Predictive]:
    """Returns the results of a run, in the order of its readings."""
    count = len(run.readings.each)
    order = keras.tree.flatten(run.readings.pack(list(range(count))))
    flat = keras.tree.flatten(run.result(totals))
    by_number = dict(zip(order, flat, strict=True))
    return [by_number[number] for number in range(count)]


def _copied(array: Any, times: int) -> Any:
    """Returns an array so many times, without copying it."""
    if array is None:
        return None
    return np.broadcast_to(array, (times, *array.shape))


def _structure(plan: Plan) -> Any:
    """Returns the structure of the outputs, with the shape of each."""
    return plan.pack(
        [str(tuple(plan.specs[number].shape)[1:]) for number in plan.outputs]
    )
