# SPDX-License-Identifier: Apache-2.0
"""The table of `docs/uci.md`, from the committed results."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pages

from uci.data import FILES
from uci.published import LOG_LIKELIHOOD
from uci.published import RMSE
from uci.published import SAMPLE_ABSOLUTE_ERROR

PAGE = pages.DOCS / "uci.md"
RESULTS = pages.RESULTS / "uci.json"


def write_or_check(check: bool) -> int:
    """Rewrites the page, or checks it; returns an exit code."""
    results = json.loads(RESULTS.read_text("utf-8"))
    tables = {"uci": "\n".join(lines(results))}
    return pages.write_or_check(PAGE, tables, check)


def lines(results: dict[str, Any]) -> Iterator[str]:
    """Yields the table in Markdown, line by line."""
    yield (
        "| set | method | RMSE | published | log-likelihood | published "
        "| mean \\|y - y_t\\| | printed as RMSE | seconds | CPU seconds |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name in FILES:
        for label, run in results.get(name, {}).items():
            yield _row(name, label, run)


def _row(name: str, label: str, run: dict[str, Any]) -> str:
    cells = [name, label]
    # Another seed, or fewer epochs, stands beside what was published.
    published_as = re.sub(r", (seed|epochs)=\d+", "", label)
    for score, published in (
        ("rmse", RMSE),
        ("log_likelihood", LOG_LIKELIHOOD),
        ("sample_absolute_error", SAMPLE_ABSOLUTE_ERROR),
    ):
        beside = published.get(published_as, {}).get(name)
        cells.append(_plus_minus(*_pair(run[score])))
        cells.append(_plus_minus(*beside) if beside else "")
    cells += [f"{run['seconds']:.0f}", f"{run['cpu_seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"


def _pair(score: dict[str, float]) -> tuple[float, float]:
    return score["mean"], score["standard_error"]


def _plus_minus(mean: float, error: float | None) -> str:
    places = 4 if abs(mean) < 0.2 else 3
    if error is None:
        return f"{mean:.{places}f}"
    return f"{mean:.{places}f} ± {error:.{places}f}"
