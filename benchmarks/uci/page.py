# SPDX-License-Identifier: Apache-2.0
"""The table of `docs/uci.md`, from the committed results."""

import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from gpu_page import replaced

from uci.data import FILES
from uci.published import GRID

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "uci.md"
RESULTS = ROOT / "benchmarks" / "results" / "uci.json"


def write_or_check(check: bool) -> int:
    """Rewrites the page, or checks it; returns an exit code."""
    text = PAGE.read_text("utf-8")
    results = json.loads(RESULTS.read_text("utf-8"))
    new = replaced(text, "uci", "\n".join(lines(results)))
    if check:
        if new != text:
            print(
                f"{PAGE} is out of date. Run: python benchmarks/bench_uci.py "
                "--page",
                file=sys.stderr,
            )
        return int(new != text)
    PAGE.write_text(new, "utf-8")
    return 0


def lines(results: dict[str, Any]) -> Iterator[str]:
    """Yields the table in Markdown, line by line."""
    yield (
        "| set | method | RMSE | published | log-likelihood | published "
        "| mean \\|y - y_t\\| | seconds | CPU seconds |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in FILES:
        for label, run in results.get(name, {}).items():
            yield _row(name, label, run)


def _row(name: str, label: str, run: dict[str, Any]) -> str:
    published = GRID[name] if name in GRID else None
    cells = [
        name,
        label,
        _plus_minus(*_pair(run["rmse"])),
        _plus_minus(*published[:2]) if published else "",
        _plus_minus(*_pair(run["log_likelihood"])),
        _plus_minus(*published[2:]) if published else "",
        _plus_minus(*_pair(run["sample_absolute_error"])),
        f"{run['seconds']:.0f}",
        f"{run['cpu_seconds']:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _pair(score: dict[str, float]) -> tuple[float, float]:
    return score["mean"], score["standard_error"]


def _plus_minus(mean: float, error: float) -> str:
    places = 4 if abs(mean) < 0.2 else 3
    return f"{mean:.{places}f} ± {error:.{places}f}"
