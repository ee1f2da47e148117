# SPDX-License-Identifier: Apache-2.0
"""Tells where the batch axis of a value is, from its shape at two batch sizes.

Samples are folded into the batch axis, so a value's first axis must be the
batch, or the value must not depend on it at all. Keras' own layers keep the
batch first; other code may move it, fold axes into it, or make values without.
"""

import enum
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop._core import private_keras

# Two primes that no layer is likely to have as a size of its own, and one for
# axes that a model leaves open.
BATCHES = (7, 11)
OPEN = 13

Shape = tuple[int | None, ...]


class Role(enum.Enum):
    """The content of the first axis of a value."""

    ROWS = "one entry per row"
    ENTRIES = "several entries per row"
    CONSTANT = "nothing that depends on the batch"
    ELSEWHERE = "another axis than the batch"
    UNKNOWN = "an axis of unknown size"


def role_of(shapes: tuple[Shape, Shape]) -> Role:
    """Returns the role of a value from its shapes at two batch sizes."""
    first, second = shapes
    if len(first) != len(second):
        return Role.ELSEWHERE
    if first == second:
        return Role.UNKNOWN if None in first[:1] else Role.CONSTANT
    if first[1:] != second[1:]:
        return Role.ELSEWHERE
    if (first[0], second[0]) == BATCHES:
        return Role.ROWS
    per_row = [
        (size or 0) / batch
        for size, batch in zip((first[0], second[0]), BATCHES, strict=True)
    ]
    return Role.ENTRIES if per_row[0] == per_row[1] else Role.ELSEWHERE


def rows_axis(
    shapes: tuple[Shape, Shape], batches: tuple[int, int] = BATCHES
) -> int | None:
    """Returns the axis of a value that holds its rows, `None` if none does.

    Args:
        shapes: Of the value, at two batch sizes.
        batches: The batch sizes. If they are the same, the model has no other,
            and the first axis holds the rows if it can.
    """
    first, second = shapes
    if batches[0] == batches[1]:
        return 0 if first and (first[0] or 1) % batches[0] == 0 else None
    if len(first) != len(second):
        return None
    differs = [
        axis
        for axis, sizes in enumerate(zip(first, second, strict=True))
        if sizes[0] != sizes[1]
    ]
    if len(differs) != 1:
        return None
    (axis,) = differs
    one, other = first[axis] or 0, second[axis] or 0
    return axis if one * batches[1] == other * batches[0] else None


def specs_at(
    shapes: Sequence[tuple[Shape, Shape]], dtypes: Sequence[Any]
) -> list[list[Any]]:
    """Returns `tf.TensorSpec` lists, one per batch size."""
    return [
        [
            private_keras.spec(shape[which], dtype)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        for which in range(len(BATCHES))
    ]
