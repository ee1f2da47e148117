# SPDX-License-Identifier: Apache-2.0
"""Reads a table of numbers from text; an error names the wrong cell.

Lines and columns are counted from 1, as in an editor or a spreadsheet.
"""

import csv
import dataclasses
import math
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.cli.problems import first_line
from keras_bayesdrop.cli.problems import problem

_EXPECTED = "lines of numbers, as many in each"
_NAMES_SHOWN = 12


@dataclasses.dataclass(frozen=True)
class CsvOptions:
    """The options for reading a table.

    Attributes:
        header: Whether the first line holds names. `None`: it does if any of
            its cells is not a number.
        columns: Names, or numbers from 1, of the columns to take, in this
            order. `None`: all.
        delimiter: The character between cells.
    """

    header: bool | None = None
    columns: tuple[str, ...] | None = None
    delimiter: str = ","


@dataclasses.dataclass(frozen=True)
class _Line:
    number: int
    cells: list[str]


def read_csv(path: pathlib.Path, options: CsvOptions) -> Float64Array:
    """Reads a table `[rows, columns]`, or raises an error of one line.

    Empty lines are skipped.
    """
    try:
        lines = list(_lines(path, options.delimiter))
    except (UnicodeDecodeError, csv.Error) as error:
        raise problem(
            path, "is not text", "UTF-8 text", first_line(error)
        ) from error
    names: list[str] | None = None
    header = options.header
    if header is None:
        header = bool(lines) and any(
            _number(cell) is None for cell in lines[0].cells
        )
    if header and lines:
        names = [cell.strip() for cell in lines.pop(0).cells]
    if not lines:
        received = "an empty file" if names is None else "only a header"
        raise problem(path, "has no rows", _EXPECTED, received)
    width = len(lines[0].cells if names is None else names)
    _check_even(path, lines, width)
    chosen = _choose(path, options.columns, names, width)
    rows = [_parse(path, line, chosen) for line in lines]
    return np.array(rows, np.float64)


def _lines(path: pathlib.Path, delimiter: str) -> Iterator[_Line]:
    # The byte-order mark that spreadsheets write is not part of the text.
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield _Line(reader.line_num, cells)


def _number(cell: str) -> float | None:
    # Python reads 1_000 as a number; no spreadsheet does.
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _check_even(path: pathlib.Path, lines: list[_Line], width: int) -> None:
    for line in lines:
        if len(line.cells) != width:
            raise problem(
                path,
                "is ragged",
                f"{width} cells in every line, as in the first",
                f"{len(line.cells)} in line {line.number}",
            )


def _choose(
    path: pathlib.Path,
    columns: Sequence[str] | None,
    names: list[str] | None,
    width: int,
) -> list[int]:
    """Returns the indices of the columns to take."""
    if columns is None:
        return list(range(width))
    chosen = []
    for column in columns:
        if names is not None and names.count(column) == 1:
            chosen.append(names.index(column))
        elif column.isdecimal() and 1 <= int(column) <= width:
            chosen.append(int(column) - 1)
        else:
            known = f"a number from 1 to {width}"
            if names is not None:
                more = ", ..." if width > _NAMES_SHOWN else ""
                listed = ", ".join(names[:_NAMES_SHOWN])
                known = f"one of {listed}{more}, or {known}"
            raise problem(
                path, "has no such column", known, f"--columns {column}"
            )
    return chosen


def _parse(path: pathlib.Path, line: _Line, chosen: list[int]) -> list[float]:
    row = []
    for column in chosen:
        value = _number(line.cells[column])
        if value is None or not math.isfinite(value):
            raise problem(
                path,
                f"has a cell that is not a finite number, in line "
                f"{line.number}, column {column + 1}",
                "a number such as 1, -2.5 or 3e-4 (--header declares a "
                "header, --columns leaves out other columns)",
                f"{line.cells[column]!r}",
            )
        row.append(value)
    return row
