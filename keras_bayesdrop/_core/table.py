# SPDX-License-Identifier: Apache-2.0
"""Tables, and reports that print themselves as text or as HTML."""

import html
import re
from collections.abc import Iterable
from collections.abc import Sequence
from typing import NamedTuple


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


class Table(NamedTuple):
    """A table of a report.

    Attributes:
        header: Titles of the columns.
        rows: Cells, as many a row as there are titles.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Returns the table as aligned text."""
        return format_table(self.header, self.rows)

    def html(self) -> str:
        """Returns the table as HTML."""
        head = _row("th", self.header)
        body = "".join(_row("td", row) for row in self.rows)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


class Report:
    """A result that prints itself.

    A shell shows it as text, a notebook as HTML, and `str` returns the text. A
    subclass defines `_blocks`. A dataclass that derives from this class is
    declared with `repr=False`.
    """

    def _blocks(self) -> Iterable[str | Table]:
        """Returns sentences and tables, in their order."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Returns the report as text, a blank line between its blocks."""
        return "\n\n".join(
            block if isinstance(block, str) else block.text()
            for block in self._blocks()
        )

    def __repr__(self) -> str:
        """Returns the report as text, for a shell that shows a result."""
        return str(self)

    def _repr_html_(self) -> str:
        """Returns the report as HTML, for a notebook."""
        return "\n".join(
            f"<p>{marked_up(block)}</p>"
            if isinstance(block, str)
            else block.html()
            for block in self._blocks()
        )


def _row(tag: str, cells: Sequence[str]) -> str:
    inside = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inside}</tr>"


def marked_up(text: str) -> str:
    """Escapes a sentence, and marks what stands in backquotes as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))
