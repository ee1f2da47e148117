# SPDX-License-Identifier: Apache-2.0
"""The quantile that gives split conformal prediction its guarantee."""

import math
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError

# So that (n + 1) * level is the whole number it should be: 0.7 * 10, say.
_ROUNDING = 1e-9


def check_rank(rows: int, level: Any) -> int:
    """Returns `ceil((rows + 1) * level)`, if there are that many rows.

    A score of a new row is at most the one of that rank with a probability
    of at least `level`: all ranks among the `rows + 1` are equally likely.
    """
    number = isinstance(level, int | float | np.number)
    if not number or not 0 < level < 1:
        raise invalid("level", level, "a float in (0, 1)")
    rank = math.ceil((rows + 1) * float(level) - _ROUNDING)
    if rank > rows:
        needed = math.ceil(float(level) / (1 - level) - _ROUNDING)
        raise BayesdropError(
            f"Too few rows for level={level}. Expected at least {needed} "
            "rows to calibrate on; with fewer, only infinite intervals or "
            f"sets of all classes would hold the level. Received: {rows} rows"
        )
    return rank


def score_of_rank(scores: Float64Array, rank: int) -> Float64Array:
    """The score of that rank from below, over the first axis."""
    return np.asarray(np.partition(scores, rank - 1, axis=0)[rank - 1])
