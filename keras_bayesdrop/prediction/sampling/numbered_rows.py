# SPDX-License-Identifier: Apache-2.0
"""The number of rows that independent masks can tell apart."""

import math

from keras_bayesdrop.plan import Plan
from keras_bayesdrop.random.philox import count_rows_with_counters

# Bounds on the units of a noise site.
_MOST_UNITS = 2**30
_UNITS_PER_ELEMENT = 1024


def numbered_rows(plan: Plan) -> int:
    """Returns how many rows are sure to have masks of their own.

    That depends on the units of the largest noise site. None has 2^30 (64 GB
    of noise a row), nor a thousand times those of the largest value.
    """
    units = _MOST_UNITS
    sizes = [tuple(spec.shape)[1:] for spec in plan.specs]
    if not plan.entries and not any(None in dims for dims in sizes):
        largest = max(math.prod(dims) for dims in sizes)
        units = min(units, _UNITS_PER_ELEMENT * largest)
    return count_rows_with_counters(units)
