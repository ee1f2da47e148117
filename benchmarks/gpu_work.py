# SPDX-License-Identifier: Apache-2.0
"""Work of every kernel that the op and TensorFlow launch, and GPU peaks."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

FLOAT = 4  # bytes
SECTOR = 32  # bytes that L2 hands out at a time
DEPTH = 16  # of a tile, in numbers
# Integer instructions for a random number: ten rounds of two wide products,
# exclusive ors and key additions for every four.
NOISE_INSTRUCTIONS = 20


@dataclasses.dataclass(frozen=True)
class Device:
    """Peaks of a GPU, a second."""

    name: str
    sm: int
    multiprocessors: int
    fma: float  # FLOP, float32
    tf32: float  # FLOP, dense
    mma_share: float  # of `tf32`, with mma.sync
    memory: float  # bytes
    cache: float  # bytes from L2
    clock: float  # Hz, boost

    @property
    def integers(self) -> float:
        """Integer instructions of single threads: 64 a clock and SM."""
        return 64 * self.multiprocessors * self.clock


# NVIDIA's data sheets of the A100 (80 GB) and the H100, both SXM. L2: 5120
# bytes a clock by the A100 white paper; the same is assumed of the H100.
# mma.sync on an H100: about 0.6 of wgmma (Luo et al., 2025, arXiv 2501.12084).
DEVICES = (
    Device(
        "A100", 80, 108, 19.5e12, 156e12, 1.0, 2.039e12, 5120 * 1.41e9, 1.41e9
    ),
    Device(
        "H100", 90, 132, 67e12, 494.7e12, 0.6, 3.35e12, 5120 * 1.98e9, 1.98e9
    ),
)


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one kernel."""

    name: str
    flops: float = 0  # of matrix products, padding included
    bytes: float = 0  # to and from memory
    staged: float = 0  # bytes from L2
    integers: float = 0  # instructions
    blocks: int = 0  # of threads that do something; 0: as many as you like
    ours: bool = False

    def seconds(self, device: Device, tf32: bool, hidden: bool) -> float:
        """Returns how long it takes at least.

        Args:
            device: Where.
            tf32: Whether products are made by tensor cores.
            hidden: Whether integer instructions overlap the rest.
        """
        peak = device.tf32 if tf32 else device.fma
        if tf32 and self.ours:
            peak *= device.mma_share
        turns = 1.0
        if self.blocks:
            whole = -(-self.blocks // device.multiprocessors)
            turns = whole * device.multiprocessors / self.blocks
        rest = max(
            turns * self.flops / peak,
            self.bytes / device.memory,
            self.staged / device.cache,
        )
        noise = self.integers / device.integers
        return max(rest, noise) if hidden else rest + noise


def tensorflow_chain(
    widths: Sequence[int],
    rows: int,
    samples: int,
    fused: bool,
) -> list[Work]:
    """Counts the kernels of a tiled batch: `Dropout` and `Dense` in Keras."""
    vectors = rows * samples
    work = [
        Work("repeat", bytes=FLOAT * (rows * widths[0] + vectors * widths[0]))
    ]
    last = len(widths) - 2
    for step, (inner, outer) in enumerate(itertools.pairwise(widths)):
        units, outputs = vectors * inner, vectors * outer
        work += [
            Work("scale", bytes=2 * FLOAT * units),
            Work(
                "random uniform",
                bytes=FLOAT * units,
                integers=NOISE_INSTRUCTIONS * units,
            ),
            Work("compare", bytes=(FLOAT + 1) * units),
            Work("select", bytes=(1 + 2 * FLOAT) * units),
            Work(
                "matmul",
                flops=2 * vectors * inner * outer,
                bytes=FLOAT * (units + inner * outer + outputs),
            ),
        ]
        if not fused:
            work.append(Work("bias", bytes=FLOAT * (2 * outputs + outer)))
            if step < last:
                work.append(Work("relu", bytes=2 * FLOAT * outputs))
    work.append(Work("softmax", bytes=2 * FLOAT * vectors * widths[-1]))
    return work


def op_chain(
    widths: Sequence[int],
    rates: Sequence[float],
    rows: int,
    plan: Sequence[dict[str, Any]],
) -> list[Work]:
    """Counts the kernels of this op.

    Args:
        widths: Of the network.
        rates: Of its dropout; as many units are dropped as expected.
        rows: Of the input.
        plan: As `gpu_plan.cc` prints it.
    """
    work = []
    for block in plan:
        samples = block["samples"]
        listed = sum(
            width
            for width, step in zip(widths, block["steps"], strict=False)
            if step["cuts_rows"]
        )
        if listed:
            kept = sum(
                width * (1 - rate)
                for width, rate, step in zip(
                    widths, rates, block["steps"], strict=False
                )
                if step["cuts_rows"]
            )
            work.append(
                Work(
                    "compact",
                    bytes=FLOAT * samples * kept,
                    integers=NOISE_INSTRUCTIONS * samples * listed,
                    ours=True,
                )
            )
        for index, step in enumerate(block["steps"]):
            work.append(_product(widths, rates, rows, samples, index, step))
        work.append(
            Work(
                "softmax",
                bytes=2 * FLOAT * samples * rows * widths[-1],
                ours=True,
            )
        )
    return work


def _product(
    widths: Sequence[int],
    rates: Sequence[float],
    rows: int,
    samples: int,
    index: int,
    step: dict[str, Any],
) -> Work:
    kept = [1 - rate for rate in rates] + [1.0]
    inner, outer = float(widths[index]), float(widths[index + 1])
    row_share = kept[index] if step["cuts_rows"] else 1.0
    column_share = kept[index + 1] if step["cuts_columns"] else 1.0
    depth, width = inner * row_share, outer * column_share
    tall, wide = step["tile"]
    pieces, height = (
        (samples, rows) if step["samples_apart"] else (1, samples * rows)
    )
    down, across = _ceil(height, tall), _ceil(width, wide)
    blocks = pieces * down * across
    deep = DEPTH * _ceil(depth, DEPTH)
    # A sector is read whole if one of its numbers is wanted.
    from_a = _spread(row_share) if step["gathers"] else 1.0
    from_b = _spread(column_share)
    vectors = samples * rows
    # The first input is the same for all samples.
    read = rows * inner if index == 0 else vectors * depth
    noise = vectors * inner * across if step["makes_noise"] else 0
    return Work(
        "product",
        flops=2.0 * blocks * tall * wide * deep,
        bytes=FLOAT * (read + inner * outer + vectors * width),
        staged=FLOAT * blocks * deep * (tall * from_a + wide * from_b),
        integers=NOISE_INSTRUCTIONS * noise,
        blocks=blocks,
        ours=True,
    )


def _spread(share: float) -> float:
    """Returns numbers read for a wanted one, `share` of all being wanted."""
    return (1 - (1 - share) ** (SECTOR // FLOAT)) / share


def _ceil(value: float, unit: int) -> int:
    # Against 0.8 * 784 = 627.2000000000001 and its like.
    return -int(-(value - 1e-9) // unit)
