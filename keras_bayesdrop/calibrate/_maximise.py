# SPDX-License-Identifier: Apache-2.0
"""Global maximum of a function of one number."""

from collections.abc import Callable

import numpy as np

_GOLDEN = (5**0.5 - 1) / 2
_REFINEMENTS = 40


def maximise(
    function: Callable[[float], float],
    low: float,
    high: float,
    per_unit: int = 4,
) -> float:
    """Returns the argument in `[low, high]` that maximises `function`.

    A grid brackets the best of several maxima, and golden sections refine it.

    Args:
        function: Function to maximise.
        low: Lower end.
        high: Upper end.
        per_unit: Grid points per unit of length.
    """
    count = int((high - low) * per_unit) + 2
    grid = np.linspace(low, high, count)
    best = int(np.argmax([function(float(x)) for x in grid]))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, count - 1)]
    a = right - _GOLDEN * (right - left)
    b = left + _GOLDEN * (right - left)
    at_a, at_b = function(a), function(b)
    for _ in range(_REFINEMENTS):
        if at_a < at_b:
            left, a, at_a = a, b, at_b
            b = left + _GOLDEN * (right - left)
            at_b = function(b)
        else:
            right, b, at_b = b, a, at_a
            a = right - _GOLDEN * (right - left)
            at_a = function(a)
    return float(0.5 * (left + right))
