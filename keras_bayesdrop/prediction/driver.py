# SPDX-License-Identifier: Apache-2.0
"""Hands out batches of rows to a run, and tells the caller how far it is."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.survey import KERAS_BATCH
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.labels import Labels
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.base import Totals
from keras_bayesdrop.prediction.progress import Progress
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch


def drive(
    model: Any,
    x: Any,
    start: Callable[[Any], Run],
    progress: Progress,
    began: float,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    watch: Callable[[Batch], None] | None = None,
    labels: Labels | None = None,
) -> Any:
    """Predicts all rows of `x`, and returns the result of the run.

    Args:
        model: The model.
        x: Arrays, or a stream of batches.
        start: Starts the run, given rows of `x` or their specs.
        progress: Is told of steps and batches.
        began: Time of the call, by `time.perf_counter`.
        batch_size: Rows of a batch, if the caller says so.
        steps: Batches after which to stop.
        watch: Is called with each batch that was predicted.
        labels: Takes the labels of the rows. It checks those of arrays before
            the first batch, and those of a stream with each batch.
    """
    num_rows = input_data.count_rows(x)
    run, size = None, batch_size or 0
    if num_rows is not None:
        input_data.check_shapes(model, x)
        input_data.check_arrays(x)
        run = start(input_data.specs_of(x, batch_size or KERAS_BATCH))
        if labels is not None:
            labels.check_arrays(run, num_rows)
        if steps is None:
            run.reserve(num_rows)
        run.rows_checked = run.check_rows(x)
        size = rows_per_batch(run.plan, batch_size, run.num_replicas)
        if steps is not None:
            num_rows = min(num_rows, steps * size)
            run.reserve(num_rows)
        progress.expect(_count_steps(run, num_rows, size))
    done, largest = 0, 0
    with contextlib.ExitStack() as files, progress:
        if run is not None:
            run.open(files)
        for batch in input_data.iterate(x, size, steps):
            if run is None:
                input_data.check_shapes(model, batch.inputs)
                run = start(batch.inputs)
                run.check_rows(batch.inputs)
                run.open(files)
            if num_rows is None:
                _check_batch(model, batch)
                if labels is not None:
                    labels.take(run, batch)
            means = _add(run, batch, progress)
            if not done:
                run.check_values(means)
            done += batch.num_rows
            largest = max(largest, batch.num_rows)
            if watch is not None:
                watch(batch)
            if progress.stopped:
                break
        if run is not None:
            run.close(done)
    if run is None:
        raise BayesdropError(
            "`x` is empty. Expected at least one row. Received: a stream "
            "without rows"
        )
    return run.result(Totals(done, largest, time.perf_counter() - began))


def repeat(run: Run, inputs: Any, num_rows: int, began: float) -> Any:
    """Predicts rows like those of an earlier run, which were one batch.

    Args:
        run: Made by `Run.again`.
        inputs: Structure of tensors, checked.
        num_rows: How many rows they are.
        began: Time of the call, by `time.perf_counter`.
    """
    run.reserve(num_rows)
    means = run.add(Batch(0, inputs, num_rows), _no_step)
    run.check_values(means)
    run.close(num_rows)
    return run.result(Totals(num_rows, num_rows, time.perf_counter() - began))


def _no_step() -> None:
    """Announces nothing."""


def _count_steps(run: Run, num_rows: int, size: int) -> int:
    """Returns how many steps all rows take; 0 if that is not known."""
    full, rest = divmod(num_rows, size)
    total = full * run.steps(size) if full else 0
    return total + (run.steps(rest) if rest else 0)


def _check_batch(model: Any, batch: Batch) -> None:
    """Raises if a batch of a stream does not fit the model."""
    input_data.check_shapes(model, batch.inputs)
    for leaf in keras.tree.flatten(batch.inputs):
        input_data.check_finite(leaf, "the inputs `x`", batch.first_row)


def _add(run: Run, batch: Batch, progress: Progress) -> list[Any]:
    progress.begin_batch()
    means = run.add(batch, progress.step)
    progress.end_batch(lambda: run.readings.pack(means))
    return means
