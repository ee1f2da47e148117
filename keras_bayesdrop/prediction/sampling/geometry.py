# SPDX-License-Identifier: Apache-2.0
"""Chooses how many rows and samples go through the model at once.

`batch_size` is the memory contract: no more memory is used than a forward pass
of `batch_size` rows through the whole model takes, whatever the number of
samples. What runs for every sample is often a small part of the model (a head
behind a backbone), and then more samples fit into the same memory.
"""

import dataclasses
import math
import os
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.graph.survey import KERAS_BATCH
from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.plan import thresholds
from keras_bayesdrop.plan.cuts.cut_step import SAMPLES_AT_ONCE
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK

# What a step may take when the caller does not say. Seconds for 256 rows and 50
# samples of the network in benchmarks/lab/01_entries_per_step.py:
#   MB           1     4     8     16    32    64
#   shared       1.34  1.06  0.93  0.87  0.85  0.84
#   independent  2.16  1.62  1.43  1.35  1.27  1.24
_AUTO_BYTES = 32 << 20
_AUTO_ROWS = (32, 16384)
# A compiled chain keeps nothing but its output, so that more entries fit; what
# bounds them is the time of a call, which cannot be interrupted: multiply-adds
# (of a network not cut) that take a thread about a second. Fewer would leave
# threads without work: a network of 4096-4096-1000 has 16 samples of 256 rows
# for two of them.
_CHAIN_ROWS = 1 << 17
_CHAIN_WORK_PER_THREAD = 1 << 35
# Counter blocks are separate ops in the compiled program: this bounds it.
_MAX_BLOCKS = 16
_BYTES_PER_ELEMENT = 4


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The shape of one step of prediction.

    Attributes:
        tile_rows: Rows of the suffix's input at once.
        samples: Samples of each at once: a divisor or a multiple of 16.
    """

    tile_rows: int
    samples: int

    @property
    def num_blocks(self) -> int:
        """Counter blocks of 16 samples that cover the samples of a step."""
        return math.ceil(self.samples / SAMPLES_PER_BLOCK)


def rows_per_batch(
    plan: Plan, batch_size: int | None, replicas: int = 1
) -> int:
    """Returns how many rows of `x` to take at once, for all replicas."""
    if batch_size is not None:
        return batch_size
    if plan.one_at_a_time:
        return _fixed_rows(plan) or KERAS_BATCH
    return replicas * _auto_rows(_row_bytes(plan, plan.steps))


def batch_bytes(plan: Plan, batch_size: int | None) -> int:
    """Returns the bytes that a forward pass of a batch takes, if known.

    Zero if they are not, or if the caller did not say how many rows.
    """
    return (batch_size or 0) * (_row_bytes(plan, plan.steps) or 0)


def choose_geometry(
    plan: Plan,
    steps: Sequence[Step | ChainStep | CutStep],
    batch_size: int | None,
    num_rows: int,
    num_samples: int,
    shared: bool,
    devices: int = 1,
) -> Geometry:
    """Chooses rows and samples of a step.

    Args:
        plan: The plan.
        steps: What the engine makes of its suffix.
        batch_size: What the caller asked for, or `None`.
        num_rows: Rows of the batch at hand.
        num_samples: Samples wanted in all.
        shared: Whether masks are shared by the rows. A step with independent
            masks needs 16 samples to use all the noise it makes.
        devices: How many share a step.

    Returns:
        The geometry.
    """
    if plan.one_at_a_time:
        return Geometry(num_rows, 1)
    parts = [step for step in steps if isinstance(step, CutStep)]
    if parts:
        return _cut_geometry(
            plan, steps, parts, batch_size, num_rows, num_samples, devices
        )
    entries = _entries(plan, steps, batch_size, devices)
    only_chains = all(isinstance(step, ChainStep) for step in steps)
    if shared or only_chains:
        tile_rows = min(num_rows, entries)
    else:
        tile_rows = min(num_rows, max(1, entries // SAMPLES_PER_BLOCK))
    return Geometry(
        tile_rows,
        _whole_blocks(
            entries // tile_rows,
            num_samples,
            num_samples if only_chains else _MAX_BLOCKS,
        ),
    )


def worker_threads() -> int:
    """Returns how many threads TensorFlow shares the work of an op among."""
    asked = int(tf.config.threading.get_intra_op_parallelism_threads())
    if asked:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):  # Not on every system.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _entries(
    plan: Plan,
    steps: Sequence[Step | ChainStep | CutStep],
    batch_size: int | None,
    devices: int,
) -> int:
    """Returns how many rows times samples a step takes."""
    suffix_bytes = _row_bytes(plan, steps)
    whole_bytes = _row_bytes(plan, plan.steps)
    only_chains = all(isinstance(step, ChainStep) for step in steps)
    if batch_size is None:
        entries = devices * _auto_rows(
            suffix_bytes, _CHAIN_ROWS if only_chains else _AUTO_ROWS[1]
        )
    elif suffix_bytes is None or whole_bytes is None:
        entries = batch_size
    else:
        entries = batch_size * max(1, whole_bytes // suffix_bytes)
    most_work = devices * worker_threads() * _CHAIN_WORK_PER_THREAD
    return max(1, min(entries, most_work // _chain_work(steps)))


def _cut_geometry(
    plan: Plan,
    steps: Sequence[Step | ChainStep | CutStep],
    parts: Sequence[CutStep],
    batch_size: int | None,
    num_rows: int,
    num_samples: int,
    devices: int,
) -> Geometry:
    """Chooses rows and samples where parts of a network are cut.

    A part holds few samples at a time, so that what bounds the samples of a
    step is what the parts hand on.
    """
    whole_steps: list[Step | ChainStep] = []
    for step in steps:
        whole_steps.extend(step.steps if isinstance(step, CutStep) else [step])
    least = max(float(part.least_rows(thresholds(part))) for part in parts)
    if num_rows < least:
        return choose_geometry(
            plan, whole_steps, batch_size, num_rows, num_samples, True, devices
        )
    entries = _entries(plan, whole_steps, batch_size, devices)
    tile_rows = min(num_rows, max(1, entries // SAMPLES_AT_ONCE))
    most = _entries(plan, steps, batch_size, devices) // tile_rows
    if least > 1:
        # The program runs fewer rows whole, and all samples of them at once.
        most = min(most, entries // math.ceil(least))
    return Geometry(
        tile_rows, _whole_blocks(max(1, most), num_samples, _MAX_BLOCKS)
    )


def _fixed_rows(plan: Plan) -> int | None:
    """Returns the only batch size that the inputs of a model take, if any."""
    for number in plan.inputs:
        size, *_ = plan.specs[number].shape
        if size is not None:
            return int(size)
    return None


def _whole_blocks(most: int, wanted: int, most_blocks: int) -> int:
    """Returns a multiple of 16, or a power of two below 16.

    It is at most `most`, unless all samples wanted fit: then it is rounded up,
    which costs nothing, since samples beyond the last are not computed.
    """
    samples = min(most, wanted)
    if samples >= SAMPLES_PER_BLOCK:
        blocks = samples // SAMPLES_PER_BLOCK
        if most >= wanted:
            blocks = math.ceil(samples / SAMPLES_PER_BLOCK)
        return min(blocks, most_blocks) * SAMPLES_PER_BLOCK
    if most >= wanted:
        return 1 << (samples - 1).bit_length()
    return 1 << (samples.bit_length() - 1)


def _auto_rows(row_bytes: int | None, high: int = _AUTO_ROWS[1]) -> int:
    low = _AUTO_ROWS[0]
    if row_bytes is None:
        return low
    return max(low, min(high, _AUTO_BYTES // row_bytes))


def _chain_work(steps: Sequence[Step | ChainStep | CutStep]) -> int:
    """Returns the multiply-adds of chains and parts, for a row and a sample."""
    work = 0
    for step in steps:
        if isinstance(step, ChainStep):
            work += sum(math.prod(link.sizes) for link in step.links)
        elif isinstance(step, CutStep):
            work += math.ceil(float(step.done_work(thresholds(step))))
    return max(1, work)


def _row_bytes(
    plan: Plan, steps: Sequence[Step | ChainStep | CutStep]
) -> int | None:
    """Returns the bytes a row takes in the largest step, if that is known."""
    largest = _BYTES_PER_ELEMENT
    for step in steps:
        elements = 0
        for value in (*step.inputs, *step.outputs):
            dims = tuple(plan.specs[value].shape)[1:]
            if None in dims:
                return None
            if isinstance(step, ChainStep) and value in plan.cut:
                continue  # Not repeated for the samples.
            elements += math.prod(dims)
        largest = max(largest, elements * _BYTES_PER_ELEMENT)
    return largest
