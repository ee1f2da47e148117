# SPDX-License-Identifier: Apache-2.0
"""The first rows of a prediction as HTML, for notebooks."""

import html
import math
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.predictive.outputs import label_shape
from keras_bayesdrop.predictive.table import columns_of
from keras_bayesdrop.predictive.table import quantities

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive

# Most rows, and most outputs of a row, that are shown one by one.
_ROWS = 5
_OUTPUTS = 3
# Probability of the interval.
_LEVEL = 0.9
_CELL = ' style="text-align: right"'


def page_of(p: "Predictive") -> str:
    """Returns a heading and a table, as HTML.

    Of classes it shows the likeliest one, its probability and the entropies
    of the row. Of more than three outputs it shows means over the row.
    """
    outputs = math.prod(label_shape(p))
    columns = columns_of(_shown(p[:_ROWS], outputs))
    lines = [
        f"<p>{html.escape(_heading(p))}</p>",
        "<table>",
        "<tr><th>row</th>",
    ]
    lines += [f"<th{_CELL}>{html.escape(name)}</th>" for name in columns]
    for row in range(min(len(p), _ROWS)):
        lines.append(f"</tr><tr><th>{row}</th>")
        lines += [
            f"<td{_CELL}>{values[row]:.4g}</td>" for values in columns.values()
        ]
    lines.append("</tr></table>")
    notes = _notes(len(p), outputs)
    if notes:
        lines.append(f"<p>{notes}</p>")
    return "<div>" + "\n".join(lines) + "</div>"


def _heading(p: "Predictive") -> str:
    kept = "kept" if p.samples is not None else "not kept"
    how = f"{p.stats.num_samples} samples, {kept}"
    if not p.stats.num_samples:
        how = f"by {p.stats.method}"
    shape = p.mean.shape[1:]
    return f"Predictive: {p.task}, {len(p)} rows, outputs {shape}, {how}"


def _notes(rows: int, outputs: int) -> str:
    parts = []
    if rows > _ROWS:
        parts.append(f"{rows - _ROWS} more rows")
    if outputs > _OUTPUTS:
        parts.append(f"each number is the mean over {outputs} outputs of a row")
    return "; ".join(parts)


def _shown(p: "Predictive", outputs: int) -> dict[str, npt.NDArray[Any]]:
    """Returns the quantities that matter for the head."""
    few = outputs <= _OUTPUTS
    values = quantities(p, _LEVEL if few else None)
    if p.head.observation == "class":
        best = {"probability": p.mean.max(axis=-1)}
        values = {"class": values["class"], **best, **_information(values)}
    elif p.head.observation == "label":
        values = {"probability": p.mean, **_information(values)}
    if few:
        return values
    values.pop("class", None)
    return {
        name: each.reshape(len(p), -1).mean(axis=1, dtype=np.float64)
        for name, each in values.items()
    }


def _information(
    values: dict[str, npt.NDArray[Any]],
) -> dict[str, npt.NDArray[Any]]:
    names = ("entropy", "mutual_information")
    return {name: values[name] for name in names if name in values}
