# SPDX-License-Identifier: Apache-2.0
"""Registers, spills, shared memory and occupancy of the GPU kernels.

    python benchmarks/gpu_resources.py            # compile, write, some minutes
    python benchmarks/gpu_resources.py --architectures 80 90
    python benchmarks/gpu_resources.py --check    # fail if the page is old

What `ptxas -v` says for each architecture, together with the launches that
`kernels/cuda` makes. Needs `nvcc`, and no GPU. Writes
`benchmarks/results/gpu_resources.json` and a table in `docs/gpu.md`.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from typing import Any

import gpu_code
import pages

RESULTS = pathlib.Path(__file__).parent / "results" / "gpu_resources.json"
WARP = 32


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a multiprocessor has, and how it hands it out."""

    warps: int
    blocks: int
    shared: int  # bytes
    shared_of_block: int  # bytes
    shared_unit: int  # bytes
    shared_reserved: int  # bytes of every block, taken by the system
    registers: int = 65536
    registers_unit: int = 256  # of a warp
    partitions: int = 4


# CUDA C++ Programming Guide, "Compute Capabilities", table "Technical
# Specifications per Compute Capability", and the kilobyte of every block that
# it says is reserved from 8.0 on; units as in `cuda_occupancy.h`.
LIMITS = {
    75: Limits(32, 16, 64 << 10, 64 << 10, 256, 0),
    80: Limits(64, 32, 164 << 10, 163 << 10, 128, 1024),
    86: Limits(48, 16, 100 << 10, 99 << 10, 128, 1024),
    89: Limits(48, 24, 100 << 10, 99 << 10, 128, 1024),
    90: Limits(64, 32, 228 << 10, 227 << 10, 128, 1024),
    100: Limits(64, 32, 228 << 10, 227 << 10, 128, 1024),
    120: Limits(48, 24, 100 << 10, 99 << 10, 128, 1024),
}


def resident_blocks(
    limits: Limits, threads: int, registers: int, shared: int
) -> int:
    """Returns how many blocks fit in a multiprocessor at a time.

    Args:
        limits: Of the multiprocessor.
        threads: Of a block.
        registers: Of a thread.
        shared: Bytes of a block, static and dynamic.
    """
    if shared > limits.shared_of_block:
        return 0
    warps = -(-threads // WARP)
    of_warp = _round_up(registers * WARP, limits.registers_unit)
    # Registers belong to a quarter of the multiprocessor.
    fit = limits.registers // limits.partitions // of_warp * limits.partitions
    of_block = _round_up(shared + limits.shared_reserved, limits.shared_unit)
    return min(
        limits.blocks,
        limits.warps // warps,
        fit // warps,
        limits.shared // of_block if of_block else limits.blocks,
    )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def describe(
    kernel: gpu_code.Kernel,
    architecture: int,
    usage: gpu_code.Usage,
    launch: gpu_code.Launch,
) -> dict[str, Any]:
    """Returns what the results say of a kernel on an architecture."""
    limits = LIMITS[architecture]
    shared = usage.static_shared + launch.dynamic_shared
    blocks = resident_blocks(limits, launch.threads, usage.registers, shared)
    warps = blocks * -(-launch.threads // WARP)
    return {
        "used": kernel.is_used(architecture),
        **dataclasses.asdict(usage),
        "dynamic_shared": launch.dynamic_shared,
        "threads": launch.threads,
        "blocks": blocks,
        "warps": warps,
        "occupancy": warps / limits.warps,
    }


def measure(nvcc: str, architectures: list[int]) -> dict[str, Any]:
    """Compiles everything and returns the results."""
    kernels: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        launches = gpu_code.launches(nvcc, folder)
        for architecture in architectures:
            ptx = gpu_code.compile_ptx(nvcc, architecture, folder)
            usage = gpu_code.assemble(nvcc, architecture, ptx)
            if usage.keys() != launches.keys():
                raise RuntimeError(
                    "Expected the kernels that are compiled to be those that "
                    "are launched. Received: "
                    f"{sorted(map(str, usage.keys() ^ launches.keys()))}"
                )
            for kernel in sorted(usage):
                kernels.setdefault(str(kernel), {})[str(architecture)] = (
                    describe(
                        kernel, architecture, usage[kernel], launches[kernel]
                    )
                )
            print(f"sm_{architecture}: {len(usage)} kernels", flush=True)
    return {
        "nvcc": gpu_code.nvcc_version(nvcc),
        "architectures": architectures,
        "kernels": kernels,
    }


def table(results: dict[str, Any]) -> str:
    """Returns the results in Markdown."""
    architectures = [str(each) for each in results["architectures"]]
    lines = [
        f"By nvcc {results['nvcc']}: registers of a thread, and theoretical "
        "occupancy (warps that fit, of those that the multiprocessor can "
        "hold). A dash: never launched there.",
        "",
        "| kernel | threads | shared memory (KB) | "
        + " | ".join(f"sm_{each}" for each in architectures)
        + " |",
        "|---" * (3 + len(architectures)) + "|",
    ]
    spills, unlaunchable = [], []
    for name, found in results["kernels"].items():
        cells = []
        for architecture in architectures:
            each = found[architecture]
            if not each["used"]:
                cells.append("-")
                continue
            cells.append(f"{each['registers']}, {each['occupancy']:.0%}")
            if each["spill_stores"] or each["spill_loads"]:
                spills.append(
                    f"{name} on sm_{architecture} ({each['spill_stores']} "
                    f"bytes stored, {each['spill_loads']} loaded)"
                )
            if not each["blocks"]:
                unlaunchable.append(f"{name} on sm_{architecture}")
        first = found[architectures[0]]
        shared = (first["static_shared"] + first["dynamic_shared"]) / 1024
        lines.append(
            f"| {name} | {first['threads']} | {shared:.1f} | "
            + " | ".join(cells)
            + " |"
        )
    lines += [
        "",
        "Registers spilled to memory: " + ("; ".join(spills) or "none") + ".",
        "",
        "Too large for the device: "
        + ("; ".join(unlaunchable) or "none")
        + ".",
    ]
    return "\n".join(lines)


def main() -> int:
    """Measures and writes, or checks the page."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--check", action="store_true")
    options.add_argument(
        "--architectures",
        type=int,
        nargs="+",
        choices=gpu_code.ARCHITECTURES,
        default=list(gpu_code.ARCHITECTURES),
    )
    chosen = options.parse_args()
    if not chosen.check:
        nvcc = gpu_code.find_nvcc()
        if nvcc is None:
            print("Expected nvcc in the path. Received: none", file=sys.stderr)
            return 1
        results = measure(nvcc, chosen.architectures)
        if chosen.architectures != list(gpu_code.ARCHITECTURES):
            print(table(results))  # Not all: shown, not kept.
            return 0
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    results = json.loads(RESULTS.read_text("utf-8"))
    tables = {"resources": table(results)}
    return pages.write_or_check(pages.DOCS / "gpu.md", tables, chosen.check)


if __name__ == "__main__":
    sys.exit(main())
