# SPDX-License-Identifier: Apache-2.0
"""Reports that show themselves: as text, and as HTML in a notebook."""

import abc
import dataclasses
import html
from collections.abc import Iterable
from collections.abc import Sequence

from keras_bayesdrop._core.table import format_table


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a report.

    Attributes:
        header: Titles of the columns.
        rows: Cells, one per title in each row.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        """Returns the table as HTML."""
        head = _row(self.header, "th")
        body = "".join(_row(row, "td") for row in self.rows)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


class Report(abc.ABC):
    """Base class of results that print as paragraphs and tables."""

    @abc.abstractmethod
    def _content(self) -> Iterable[str | Table]:
        """Returns the paragraphs and tables, in order."""

    def __str__(self) -> str:
        """Returns the report as text."""
        return "\n\n".join(
            each
            if isinstance(each, str)
            else format_table(each.header, each.rows)
            for each in self._content()
        )

    def _repr_html_(self) -> str:
        """Returns the report as HTML, for notebooks."""
        return "".join(
            f"<p>{html.escape(each)}</p>"
            if isinstance(each, str)
            else each.html()
            for each in self._content()
        )


def _row(cells: Sequence[str], tag: str) -> str:
    inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
