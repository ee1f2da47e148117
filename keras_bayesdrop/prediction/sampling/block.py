# SPDX-License-Identifier: Apache-2.0
"""A block of samples of a range of rows: what one call of a program draws."""

from typing import Any
from typing import NamedTuple


class Block(NamedTuple):
    """Samples and rows by number. Masks follow from these numbers alone.

    Attributes:
        first_sample: Number of the first sample.
        num_samples: How many samples.
        first_row: Number of the first row, in the whole of which `x` is part.
            Shared masks do not depend on it.
        num_rows: How many rows.
    """

    first_sample: Any
    num_samples: Any
    first_row: Any
    num_rows: Any


def sample_ranges(first: int, until: int, size: int) -> list[tuple[int, int]]:
    """Returns the first sample and the number of samples of each step."""
    return [
        (begin, min(size, until - begin)) for begin in range(first, until, size)
    ]
