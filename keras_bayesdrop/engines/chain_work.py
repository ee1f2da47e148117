# SPDX-License-Identifier: Apache-2.0
"""The way in which the compiled op runs a chain, and its multiply-adds.

The op asks the same function.

`plan_call` is pure: sizes, rates and the number of threads decide, and no
number of the network. `add_up` sums the calls of a prediction.
"""

import functools
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from keras_bayesdrop.noise import MaskTable
from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.predictive import ChainWork


class ChainPlan(NamedTuple):
    """The way in which one call of a chain is run.

    Attributes:
        strategy: `"cut"`, `"masked"` or `"columns"`.
        subtracts: Whether the first step subtracts what is dropped from a
            product that is made once.
        multiply_adds: Multiply-adds that the noise leaves, on average.
        whole_multiply_adds: Those of the whole network.
        tasks: Pieces of work that threads share.
        task_bytes: Scratch of each thread.
        call_bytes: Scratch that the threads share.
        threads: The threads.
    """

    strategy: str
    subtracts: bool
    multiply_adds: float
    whole_multiply_adds: float
    tasks: int
    task_bytes: int
    call_bytes: int
    threads: int


class ChainSizes(NamedTuple):
    """All that decides how the calls of a chain are run, but their size.

    Attributes:
        dtype: Name of the dtype.
        widths: Of the input and of each step's output.
        noise: Kind of noise of each step, as the op names it.
        thresholds: Of each step.
        per_entry: Whether entries of a row have noise of their own.
        activations: Of each step.
        entries: Vectors of a row.
        per_sample: Whether the input differs between samples.
    """

    dtype: str
    widths: tuple[int, ...]
    noise: tuple[str, ...]
    thresholds: tuple[int, ...]
    per_entry: tuple[bool, ...]
    activations: tuple[str, ...]
    entries: int
    per_sample: bool


def sizes_of(
    plan: Plan, steps: Sequence[Step | ChainStep | CutStep], chain: ChainStep
) -> ChainSizes | None:
    """Returns the sizes of a chain; `None` if the model leaves them open.

    Args:
        plan: The plan.
        steps: The steps that the engine makes of its suffix.
        chain: One of them.
    """
    (number,) = chain.inputs
    between = tuple(plan.specs[number].shape)[1:-1]
    if chain.flattens:
        between = ()
    if None in between:
        return None
    kinds, thresholds = [], []
    for link in chain.links:
        settings = link.noise and link.noise.noise.op_settings()
        kinds.append(link.noise.noise.kind if link.noise else "none")
        thresholds.append(int(settings[0]) if settings else 0)
    return ChainSizes(
        chain.dtype,
        (chain.links[0].sizes[0], *(link.sizes[1] for link in chain.links)),
        tuple(kinds),
        tuple(thresholds),
        tuple(link.per_entry for link in chain.links),
        tuple(link.activation for link in chain.links),
        math.prod(between),
        _is_folded(plan, steps, chain),
    )


def _is_folded(
    plan: Plan, steps: Sequence[Step | ChainStep | CutStep], chain: ChainStep
) -> bool:
    """Returns whether the input of a chain differs between samples."""
    (number,) = chain.inputs
    if number not in plan.cut:
        return True
    before = steps[: [step is chain for step in steps].index(True)]
    return any(
        number in step.inputs
        and not isinstance(step, ChainStep | CutStep)
        and not (isinstance(step, NoiseStep) and step.active)
        for step in before
    )


@functools.lru_cache(maxsize=1024)
def plan_call(
    ops: Any,
    sizes: ChainSizes,
    num_rows: int,
    num_samples: int,
    shared: bool,
    threads: int = 0,
) -> ChainPlan:
    """Returns how a call of a chain is run on the CPU.

    Args:
        ops: The module of the compiled op library.
        sizes: The chain.
        num_rows: Rows of the call.
        num_samples: Samples of the call.
        shared: Whether masks are shared by the rows.
        threads: Threads that share the work; 0 for those of this process.
    """
    with tf.init_scope(), tf.device("CPU"):
        strategy, subtracts, work, counts = ops.keras_bayesdrop_chain_plan(
            sizes=tf.constant(sizes.widths, tf.int64),
            thresholds=tf.constant(sizes.thresholds, tf.uint32),
            call=tf.constant(
                [num_rows, sizes.entries, num_samples, threads], tf.int64
            ),
            T=sizes.dtype,
            L=len(sizes.noise),
            K=sizes.noise.count(MaskTable.kind),
            has_bias=[False] * len(sizes.noise),
            noise=sizes.noise,
            per_entry=sizes.per_entry,
            activations=sizes.activations,
            masks="shared" if shared else "independent",
            x_per_sample=sizes.per_sample,
        )
    left, whole = (float(each) for each in work.numpy())
    tasks, task_bytes, call_bytes, used = (int(each) for each in counts.numpy())
    return ChainPlan(
        strategy.numpy().decode(),
        bool(subtracts.numpy()),
        left,
        whole,
        tasks,
        task_bytes,
        call_bytes,
        used,
    )


def add_up(
    ops: Any,
    chain: ChainStep,
    sizes: ChainSizes,
    blocks: Mapping[tuple[int, int], int],
    shared: bool,
) -> ChainWork:
    """Returns the work of a chain in a prediction.

    Args:
        ops: The module of the compiled op library.
        chain: The chain.
        sizes: Its sizes.
        blocks: How often so many rows and samples ran.
        shared: Whether masks are shared by the rows.
    """
    calls = [
        (plan_call(ops, sizes, rows, samples, shared), count)
        for (rows, samples), count in sorted(blocks.items())
    ]
    # The strategy of most of the work, in case a short last block has another.
    weights: dict[str, float] = {}
    for call, count in calls:
        weight = weights.get(call.strategy, 0.0)
        weights[call.strategy] = weight + count * call.whole_multiply_adds
    return ChainWork(
        name=chain.path,
        strategy=max(weights, key=weights.__getitem__),
        subtracts=any(call.subtracts for call, _ in calls),
        multiply_adds=round(sum(call.multiply_adds * n for call, n in calls)),
        whole_multiply_adds=round(
            sum(call.whole_multiply_adds * n for call, n in calls)
        ),
    )
