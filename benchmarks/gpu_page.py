# SPDX-License-Identifier: Apache-2.0
"""Puts tables between their markers in `docs/gpu.md`."""

import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "gpu.md"


def replaced(text: str, name: str, body: str) -> str:
    """Returns a page with what is between the markers of `name` made anew."""
    begin, end = f"<!-- {name}:begin", f"<!-- {name}:end -->"
    before, rest = text.split(begin, 1)
    marker, rest = rest.split("\n", 1)
    _, after = rest.split(end, 1)
    return f"{before}{begin}{marker}\n{body}\n{end}{after}"


def write_or_check(name: str, body: str, check: bool) -> int:
    """Rewrites the page, or checks it; returns an exit code."""
    text = PAGE.read_text("utf-8")
    new = replaced(text, name, body)
    if check:
        if new != text:
            print(f"{PAGE}: `{name}` is out of date", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new, "utf-8")
    return 0
