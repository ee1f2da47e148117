# SPDX-License-Identifier: Apache-2.0
"""Cuts tiles of rows out of what the prefix of a plan computed."""

from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bayesdrop.plan import Plan

# A gap of up to this many finished rows does not start another call: their
# samples are drawn again. A call costs about as much in the smallest networks,
# and less in others.
_GAP = 8


class Tile(NamedTuple):
    """Rows that go through the suffix of a plan together.

    Attributes:
        cut: Values of the prefix for these rows, then their Keras masks.
        first_row: Number of the first row.
        num_rows: How many rows.
    """

    cut: Sequence[tf.Tensor | None]
    first_row: int
    num_rows: int


def tile_of(plan: Plan, tile: Tile, begin: int, end: int) -> Tile:
    """Returns some rows of a tile, one after another."""
    if begin == 0 and end == tile.num_rows:
        return tile
    cut = _select(plan, tile, slice(begin, end))
    return Tile(cut, tile.first_row + begin, end - begin)


def tiles_of(
    plan: Plan, tile: Tile, rows: Any, shared: bool
) -> tuple[list[Tile], Any]:
    """Cuts the rows that need more samples out of a tile.

    With shared masks all of them form one tile. Otherwise a row has the noise
    of its number, so rows stay in ranges, which may hold a few rows more.

    Args:
        plan: The plan.
        tile: The tile.
        rows: Rising indexes of the rows in the tile.
        shared: Whether masks are shared by the rows.

    Returns:
        The tiles, and for each row its index in the tiles put end to end;
        `None` if the tiles hold exactly these rows.
    """
    if len(rows) == tile.num_rows:
        return [tile], None
    if shared:
        cut = _select(plan, tile, rows)
        return [Tile(cut, tile.first_row, len(rows))], None
    ranges = spans(rows)
    covered = np.concatenate([np.arange(*each) for each in ranges])
    places = np.searchsorted(covered, rows)
    tiles = [tile_of(plan, tile, begin, end) for begin, end in ranges]
    whole = len(tiles) == 1 and len(covered) == len(rows)
    return tiles, None if whole else places


def spans(rows: Any) -> list[tuple[int, int]]:
    """Returns a few ranges that cover rising row numbers.

    Noise is drawn for a range of rows at once, not for scattered rows.
    """
    breaks = np.flatnonzero(np.diff(rows) > _GAP + 1) + 1
    return [
        (int(part[0]), int(part[-1]) + 1) for part in np.split(rows, breaks)
    ]


def _select(plan: Plan, tile: Tile, rows: Any) -> list[tf.Tensor | None]:
    """Selects rows of the values and masks of a tile.

    Args:
        plan: The plan.
        tile: The tile.
        rows: Slice with both ends, or indexes.
    """

    def rows_of(number: int, value: Any) -> Any:
        if value is None or number in plan.batchless:
            return value
        per_row = value.shape[0] // tile.num_rows
        if isinstance(rows, slice):
            return value[rows.start * per_row : rows.stop * per_row]
        entries = rows[:, np.newaxis] * per_row + np.arange(per_row)
        return tf.gather(value, entries.reshape(-1))

    numbers = (*plan.cut, *plan.cut)
    return [
        rows_of(number, value)
        for number, value in zip(numbers, tile.cut, strict=True)
    ]
