# SPDX-License-Identifier: Apache-2.0
"""Puts tables between their markers in a page of `docs/`."""

import pathlib
import sys
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table of Markdown.

    Args:
        headings: Of the columns.
        rows: Of each, its cells.
    """
    rule = "|---" * len(headings) + "|"
    head, *lines = (f"| {' | '.join(row)} |" for row in (headings, *rows))
    return "\n".join([head, rule, *lines])


def replaced(text: str, name: str, body: str) -> str:
    """Returns a page with what is between the markers of `name` made anew."""
    begin, end = f"<!-- {name}:begin", f"<!-- {name}:end -->"
    before, rest = text.split(begin, 1)
    marker, rest = rest.split("\n", 1)
    _, after = rest.split(end, 1)
    return f"{before}{begin}{marker}\n{body}\n{end}{after}"


def write_or_check(
    page: pathlib.Path, tables: Mapping[str, str], check: bool
) -> int:
    """Rewrites a page, or checks it; returns an exit code.

    Args:
        page: The file.
        tables: What belongs between markers, by their names.
        check: Whether to leave the page as it is, and say if it is old.
    """
    text = new = page.read_text("utf-8")
    for name, body in tables.items():
        new = replaced(new, name, body)
    if check:
        if new != text:
            print(f"{page} is out of date", file=sys.stderr)
        return int(new != text)
    page.write_text(new, "utf-8")
    return 0
