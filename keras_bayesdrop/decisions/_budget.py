# SPDX-License-Identifier: Apache-2.0
"""Which rows are the unsure ones: by a budget, or by a threshold."""

import math
from numbers import Integral
from numbers import Real

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError

Budget = float | int


def check_limits(budget: Budget | None, threshold: float | None) -> None:
    """Raises unless one of the two is given, and makes sense."""
    if (budget is None) == (threshold is None):
        raise BayesdropError(
            "It is not clear which rows are unsure. Expected either `budget` "
            f"or `threshold`. Received: budget={budget}, threshold={threshold}"
        )
    if budget is not None:
        valid = isinstance(budget, Real) and not isinstance(budget, bool)
        if valid and isinstance(budget, Integral):
            valid = budget >= 0
        elif valid:
            valid = 0 <= budget <= 1
        if not valid:
            raise invalid(
                "budget",
                budget,
                "a share of the rows (a float in [0, 1]) or a number of rows "
                "(an integer of at least 0)",
            )
    else:
        valid = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if not valid or math.isnan(threshold or 0.0):
            raise invalid("threshold", threshold, "a float that is not NaN")


def unsure_rows(
    uncertainty: Float64Array, budget: Budget | None, threshold: float | None
) -> tuple[npt.NDArray[np.intp], float]:
    """Returns the unsure rows, the least sure first, and the threshold.

    Of rows that are equally unsure the earlier one counts as less sure, so
    the answer is the same every time.

    Args:
        uncertainty: Array `[rows]`.
        budget: Share (float) or number (int) of rows: at most so many.
        threshold: Rows above it are unsure.

    Returns:
        Row numbers, and the threshold: the one given, or the largest
        uncertainty among the other rows (minus infinity if there are none).
    """
    order = np.argsort(-uncertainty, kind="stable")
    if threshold is not None:
        count = int(np.sum(uncertainty > threshold))
        return order[:count], float(threshold)
    assert budget is not None
    count = _count(budget, len(uncertainty))
    rest = uncertainty[order[count:]]
    return order[:count], float(rest[0]) if rest.size else -math.inf


def _count(budget: Budget, rows: int) -> int:
    if isinstance(budget, Integral):
        return min(int(budget), rows)
    # A budget is never exceeded; but 0.29 * 100 is meant to be 29.
    return math.floor(budget * rows + 1e-9)
