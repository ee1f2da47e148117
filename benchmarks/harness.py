# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: timing side by side, and results as JSON.

Machines are noisy, so the cases of a comparison run in turn, round after
round, and are compared as ratios within the run. Check a result before you
time it: a case is a function whose value the caller has looked at.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

RESULTS = pathlib.Path(__file__).parent / "results"


def time_in_turn(
    cases: dict[str, Callable[[], Any]], rounds: int
) -> dict[str, dict[str, float]]:
    """Times cases in turn, after one untimed call of each.

    Args:
        cases: Functions without arguments, by name.
        rounds: Timed calls of each.

    Returns:
        Per case, in seconds: `best`, `median`, and `spread`, which is the
        interquartile range over the median.
    """
    for case in cases.values():
        case()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            began = time.perf_counter()
            case()
            seconds[name].append(time.perf_counter() - began)
    return {name: summary(values) for name, values in seconds.items()}


def summary(seconds: list[float]) -> dict[str, float]:
    """Returns best, median and spread of repeated timings."""
    median = statistics.median(seconds)
    spread = 0.0
    if len(seconds) > 1:
        low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
        spread = (high - low) / median
    return {"best": min(seconds), "median": median, "spread": spread}


def machine() -> dict[str, Any]:
    """Describes the machine and the versions that matter."""
    import keras
    import numpy
    import tensorflow

    cpu, flags = platform.processor() or platform.machine(), ""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                cpu = value.strip()
            if key.strip() == "flags":
                flags = value
    vectors = (
        "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else ""
    )
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "vectors": vectors,
        "python": platform.python_version(),
        "tensorflow": tensorflow.__version__,
        "keras": keras.__version__,
        "numpy": numpy.__version__,
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def write(name: str, results: dict[str, Any]) -> pathlib.Path:
    """Writes results beside the description of the machine."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    if path.exists():
        # A run of some of the benchmarks leaves the others as they are.
        results = {**json.loads(path.read_text()), **results}
        results.pop("machine", None)
    text = json.dumps({"machine": machine(), **results}, indent=2)
    path.write_text(text + "\n")
    return path


def parser(description: str) -> argparse.ArgumentParser:
    """Returns the options that every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument(
        "--only", help="name of the one benchmark to run; all by default"
    )
    options.add_argument(
        "--quick",
        action="store_true",
        help="one round on small sizes; nothing is written",
    )
    return options


def _commit() -> str:
    try:
        run = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            cwd=pathlib.Path(__file__).parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return run.stdout.strip()
