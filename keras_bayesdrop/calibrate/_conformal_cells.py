# SPDX-License-Identifier: Apache-2.0
"""Thresholds of scores: one, or one for each group and class of rows.

Rows of one cell share a threshold. A cell is all rows, the rows of a group, the
rows of a class, or the rows of a class in a group.
"""

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop._core.warn import warn_user
from keras_bayesdrop.calibrate._conformal_groups import Groups
from keras_bayesdrop.calibrate._conformal_groups import group_numbers
from keras_bayesdrop.calibrate._conformal_groups import name_groups
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError

# Absorbs the rounding of (n + 1) * level: 0.7 * 10 must count as 7.
_ROUNDING = 1e-9
# A warning names no more cells than this.
_NAMED = 5

Indices = npt.NDArray[np.intp]


def check_level(level: Any) -> float:
    """Returns a level in (0, 1) as a float."""
    number = isinstance(level, Real) and not isinstance(level, bool)
    if not number or not 0 < level < 1:
        raise invalid("level", level, "a float in (0, 1)")
    return float(level)


def calibrate_threshold(
    scores: Float64Array,
    level: float,
    groups: npt.NDArray[Any] | None,
    labels: Indices | None,
    num_classes: int,
    consequence: str,
) -> tuple[Float64Array, Groups | None]:
    """Returns the thresholds of scores, and the names of the groups.

    Args:
        scores: Scores of the truth, `[rows, outputs]`.
        level: Level in (0, 1).
        groups: Group of each row, `[rows]`, or `None` for no groups.
        labels: Class numbers of the shape of `scores` for a threshold per
            class, or `None`.
        num_classes: Number of classes.
        consequence: End of the warning of an infinite threshold.

    Returns:
        Thresholds `[groups, outputs, classes]`, without the axes of groups or
        classes where there are none; and a tuple of names, or `None`.
    """
    if not np.all(np.isfinite(scores)):
        raise NonFiniteError(
            "Cannot calibrate on this prediction. Expected finite means and "
            f"variances. Received: {np.sum(~np.isfinite(scores))} values that "
            "are NaN or infinite."
        )
    cells = np.zeros(scores.shape, np.intp)
    titles = [""]
    names = None
    if groups is not None:
        names, numbers = name_groups(groups)
        cells += numbers.reshape(-1, *[1] * (scores.ndim - 1))
        titles = [f"group {name!r}" for name in names]
    if labels is not None:
        cells = cells * num_classes + labels
        titles = [
            f"{title}, class {c}" if title else f"class {c}"
            for title in titles
            for c in range(num_classes)
        ]
    thresholds, counts = cell_thresholds(scores, cells, len(titles), level)
    _check_thresholds(thresholds, counts, titles, level, consequence)
    if labels is not None:
        thresholds = thresholds.reshape(-1, num_classes, *scores.shape[1:])
        thresholds = np.moveaxis(thresholds, 1, -1)
    return (thresholds[0] if names is None else thresholds), names


def cell_thresholds(
    scores: Float64Array, cells: Indices, num_cells: int, level: float
) -> tuple[Float64Array, Indices]:
    """Returns the threshold of each cell, and its number of rows.

    The threshold is the score of rank `ceil((n + 1) * level)` among the `n`
    rows of a cell. All ranks of a new row among the `n + 1` are equally likely,
    so its score is at most the threshold with a probability of at least
    `level`. Where the rank is above `n`, the threshold is infinite.

    Args:
        scores: Scores of the truth, `[rows, outputs]`.
        cells: Cell of each score, of the same shape.
        num_cells: Number of cells.
        level: Level in (0, 1).

    Returns:
        Arrays `(thresholds, counts)`, both `[cells, outputs]`.
    """
    order = np.lexsort((scores, cells), axis=0)
    ordered = np.take_along_axis(scores, order, axis=0)
    counts = np.stack([np.sum(cells == c, axis=0) for c in range(num_cells)])
    ranks = np.ceil((counts + 1) * level - _ROUNDING).astype(np.intp)
    starts = np.cumsum(counts, axis=0) - counts
    places = np.minimum(starts + ranks - 1, len(scores) - 1)
    chosen = np.take_along_axis(ordered, places, axis=0)
    return np.where(ranks <= counts, chosen, np.inf), counts


def row_thresholds(
    thresholds: Float64Array,
    names: Groups | None,
    groups: npt.ArrayLike | None,
    rows: int,
) -> Float64Array:
    """Returns thresholds that broadcast with the scores of new rows.

    Args:
        thresholds: Thresholds of a calibration.
        names: Groups of the calibration, or `None`.
        groups: Group of each new row, or `None`.
        rows: Number of new rows.
    """
    numbers = group_numbers(groups, names, rows)
    return thresholds if numbers is None else thresholds[numbers]


def read_threshold(
    values: npt.ArrayLike, groups: Groups | None, classes: int | None
) -> Float64Array:
    """Returns thresholds as an array, if they fit the groups and classes."""
    array = np.asarray(values, dtype=np.float64)
    if np.any(np.isnan(array)):
        raise invalid("threshold", values, "numbers, without NaN")
    first = () if groups is None else (len(groups),)
    last = () if classes is None else (classes,)
    shape = array.shape
    if (
        len(shape) < len(first) + len(last)
        or shape[: len(first)] != first
        or shape[len(shape) - len(last) :] != last
    ):
        raise BayesdropError(
            "Invalid shape of argument `threshold`. Expected a first axis of "
            f"length {first or 'any'} for the groups and a last one of "
            f"length {last or 'any'} for the classes. Received: "
            f"threshold.shape={shape}"
        )
    return array


def _check_thresholds(
    thresholds: Float64Array,
    counts: Indices,
    titles: list[str],
    level: float,
    consequence: str,
) -> None:
    """Warns of cells with too few rows; raises if all have too few."""
    infinite = np.isinf(thresholds)
    needed = math.ceil(level / (1 - level) - _ROUNDING)
    if np.all(infinite):
        where = "" if len(titles) == 1 else " in the largest group or class"
        raise BayesdropError(
            f"Too few rows for level={level}. Expected at least {needed} "
            "rows to calibrate on; with fewer, only infinite intervals or "
            f"sets of all classes have the coverage. Received: {counts.max()} "
            f"rows{where}"
        )
    few = [
        f"{title} ({count.min()} rows)"
        for title, count, short in zip(titles, counts, infinite, strict=True)
        if np.any(short)
    ]
    if few:
        more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
        warn_user(
            f"Too few calibration rows for level={level} in "
            f"{', '.join(few[:_NAMED])}{more}. Expected at least {needed} "
            f"each. The threshold is infinite there: {consequence}"
        )
