# SPDX-License-Identifier: Apache-2.0
"""Speed-up that is expected of the op on a GPU, by a roofline model.

    python benchmarks/gpu_roofline.py            # write
    python benchmarks/gpu_roofline.py --check    # fail if the page is old

Nothing is measured here. Every kernel that this op and TensorFlow's own ops
launch for a network is counted: floating-point operations, bytes to and from
memory, bytes staged from the L2 cache, integer instructions of the random
numbers. A kernel takes the longest of these; kernels add up. Writes
`benchmarks/results/gpu_roofline.json` and tables in `docs/gpu.md`.

Doubtful assumptions are decided against this op:

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
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import pages
from gpu_work import DEVICES
from gpu_work import Device
from gpu_work import Work
from gpu_work import op_chain
from gpu_work import tensorflow_chain

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "gpu_roofline.json"
KERNELS = HERE.parent / "kernels"

# As in networks.py, which imports Keras.
WIDTHS = (784, 1200, 1200, 1200, 1200, 10)
RATES = (0.2, 0.5, 0.5, 0.5, 0.5)
ROWS, SAMPLES = 256, 50


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
    blocks: list[dict[str, Any]] = json.loads(done.stdout)
    return blocks


def summary(work: Sequence[Work]) -> dict[str, float]:
    """Returns the work of all kernels for one sample, and their number."""
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
    options = argparse.ArgumentParser(description="Expected speed-up on a GPU.")
    options.add_argument("--check", action="store_true")
    check = options.parse_args().check
    if not check:
        text = json.dumps(expectation(), indent=1)
        RESULTS.write_text(text + "\n", "utf-8")
    results = json.loads(RESULTS.read_text("utf-8"))
    sections = {"roofline": tables(results)}
    return pages.write_or_check(pages.DOCS / "gpu.md", sections, check)


if __name__ == "__main__":
    sys.exit(main())
