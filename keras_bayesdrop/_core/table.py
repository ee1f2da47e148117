# SPDX-License-Identifier: Apache-2.0
"""Plain-text tables, for reports that people read in a terminal."""

from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligns rows under a header.

    Args:
        header: Titles of the columns.
        rows: Cells, as many a row as there are titles.

    Returns:
        Lines joined by newlines, columns two blanks apart.
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def join(cells: Sequence[str]) -> str:
        padded = (c.ljust(w) for c, w in zip(cells, widths, strict=True))
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([join(header), rule, *(join(row) for row in rows)])
