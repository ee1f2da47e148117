# SPDX-License-Identifier: Apache-2.0
"""What the op should gain on a GPU, on paper: an expectation.

    python benchmarks/gpu_roofline.py            # write
    python benchmarks/gpu_roofline.py --check    # fail if the page is old

Nothing is measured here. Every kernel that this op and TensorFlow's own ops
launch for a network is counted: floating-point operations, bytes to and from
memory, bytes staged from the L2 cache, integer instructions of the random
numbers. A kernel takes the longest of these; kernels add up. Writes
`benchmarks/results/gpu_roofline.json` and tables in `docs/gpu.md`.

Where there is doubt it is decided against this op:

- Its tiles count whole, with the padding at the edges, and its blocks are
  rounded up to whole turns of the multiprocessors; it stages its operands from
  L2, whole sectors of 32 bytes even where single numbers are gathered; its
  `mma.sync` reaches only a share of an H100's peak.
- TensorFlow's matmul counts as if it ran at the peak, and its elementwise
  kernels as if at the full bandwidth of the memory.
- Times are ranges: noise hidden behind the product or not at all; bias and
  relu fused into TensorFlow's matmul (its remapper does that for `BiasAdd`,
  with TF_USE_CUBLASLT=1) or kernels of their own, as by default.

Launches are counted, not timed.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import pages

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "gpu_roofline.json"
KERNELS = HERE.parent / "kernels"

# As in networks.py, which imports Keras.
WIDTHS = (784, 1200, 1200, 1200, 1200, 10)
RATES = (0.2, 0.5, 0.5, 0.5, 0.5)
ROWS, SAMPLES = 256, 50

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
    """What one kernel does."""

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
        units, made = vectors * inner, vectors * outer
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
                bytes=FLOAT * (units + inner * outer + made),
            ),
        ]
        if not fused:
            work.append(Work("bias", bytes=FLOAT * (2 * made + outer)))
            if step < last:
                work.append(Work("relu", bytes=2 * FLOAT * made))
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
    # Of a sector with a wanted number all is read.
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


def plan_of(
    device: Device, shared: bool, tf32: bool, folder: pathlib.Path
) -> list[dict[str, Any]]:
    """Asks the op's own heuristics how it would run the network."""
    program = folder / "gpu_plan"
    if not program.exists():
        compiler = shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            raise RuntimeError("Expected a C++ compiler. Received: none")
        subprocess.run(
            [
                compiler,
                "-std=c++17",
                f"-I{KERNELS}",
                f"-I{KERNELS / 'include'}",
                str(HERE / "gpu_plan.cc"),
                "-o",
                str(program),
            ],
            check=True,
        )
    network = [str(WIDTHS[0])]
    for rate, width in zip(RATES, WIDTHS[1:], strict=True):
        network += [str(rate), str(width)]
    done = subprocess.run(
        [
            str(program),
            str(int(shared)),
            str(int(tf32)),
            str(device.sm),
            str(device.multiprocessors),
            str(ROWS),
            str(SAMPLES),
            *network,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def summary(work: Sequence[Work]) -> dict[str, float]:
    """Returns what kernels do, for one sample, and how many there are."""
    return {
        "gflop_per_sample": sum(each.flops for each in work) / SAMPLES / 1e9,
        "megabytes_per_sample": sum(each.bytes for each in work)
        / SAMPLES
        / 1e6,
        "launches": len(work),
    }


def expectation() -> dict[str, Any]:
    """Returns the results."""
    theirs = {
        fused: tensorflow_chain(WIDTHS, ROWS, SAMPLES, fused)
        for fused in (True, False)
    }
    counts = {
        "TensorFlow, bias and relu fused": summary(theirs[True]),
        "TensorFlow, a kernel each": summary(theirs[False]),
    }
    times = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for device in DEVICES:
            for tf32 in (False, True):
                base = [
                    sum(each.seconds(device, tf32, True) for each in work)
                    for work in theirs.values()
                ]
                for shared in (True, False):
                    plan = plan_of(device, shared, tf32, folder)
                    ours = op_chain(WIDTHS, RATES, ROWS, plan)
                    masks = "shared" if shared else "independent"
                    counts.setdefault(f"this op, {masks} masks", summary(ours))
                    spent = [
                        sum(each.seconds(device, tf32, hidden) for each in ours)
                        for hidden in (True, False)
                    ]
                    times.append(
                        {
                            "device": device.name,
                            "products": "TF32" if tf32 else "float32",
                            "masks": masks,
                            "op_milliseconds": [1e3 * t for t in spent],
                            "tensorflow_milliseconds": [1e3 * t for t in base],
                            "times_faster": [
                                min(base) / max(spent),
                                max(base) / min(spent),
                            ],
                        }
                    )
    return {
        "what": f"{'-'.join(map(str, WIDTHS))}, rates 0.2/0.5, T = {SAMPLES}, "
        f"{ROWS} rows",
        "measured": False,
        "devices": [dataclasses.asdict(device) for device in DEVICES],
        "counts": counts,
        "times": times,
    }


def tables(results: dict[str, Any]) -> str:
    """Returns the results in Markdown."""
    lines = [
        f"**Expected, not measured.** {results['what']}.",
        "",
        "| | GFLOP a sample | MB a sample, to and from memory | launches |",
        "|---|---|---|---|",
        *(
            f"| {name} | {each['gflop_per_sample']:.2f} | "
            f"{each['megabytes_per_sample']:.1f} | {each['launches']} |"
            for name, each in results["counts"].items()
        ),
        "",
        "| GPU | products | masks | this op, ms | TensorFlow, ms | expected |",
        "|---|---|---|---|---|---|",
        *(
            f"| {each['device']} | {each['products']} | {each['masks']} | "
            f"{_range(each['op_milliseconds'], '.2f')} | "
            f"{_range(each['tensorflow_milliseconds'], '.2f')} | "
            f"{_range(each['times_faster'], '.1f')} x |"
            for each in results["times"]
        ),
    ]
    return "\n".join(lines)


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def main() -> int:
    """Counts and writes, or checks the page."""
    options = argparse.ArgumentParser(description="What a GPU should gain.")
    options.add_argument("--check", action="store_true")
    check = options.parse_args().check
    if not check:
        text = json.dumps(expectation(), indent=1)
        RESULTS.write_text(text + "\n", "utf-8")
    results = json.loads(RESULTS.read_text("utf-8"))
    made = {"roofline": tables(results)}
    return pages.write_or_check(pages.DOCS / "gpu.md", made, check)


if __name__ == "__main__":
    sys.exit(main())
