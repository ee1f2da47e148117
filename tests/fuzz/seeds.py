# SPDX-License-Identifier: Apache-2.0
"""Models that the ordinary tests run.

The slice has every kind of piece at least once. What was found is kept as
data, not as a seed: a change of the grammar leaves it what it is.
"""

from typing import Any

SLICE = (
    19,
    22,
    40,
    57,
    82,
    107,
    130,
    148,
    159,
    201,
    212,
    222,
    268,
    283,
    295,
    319,
    325,
    343,
    351,
    362,
    384,
    401,
    402,
    408,
    450,
    471,
    494,
    551,
    615,
    630,
)

# What was found, and the smallest model that showed it.
FOUND: dict[str, dict[str, Any]] = {}
