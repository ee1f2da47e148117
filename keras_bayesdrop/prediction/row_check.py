# SPDX-License-Identifier: Apache-2.0
"""Checks that the rows of a batch do not influence each other.

Samples are folded into the batch, and batches are cut as memory allows. Both
are right only if a row's output depends on that row alone. So a new program
first predicts a few rows twice, the second time with all rows but the first
replaced. Shapes and row numbers stay, so the first row has the same noise, and
its output must be the same to the bit.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import found_out

_ROWS = 3
# Where the same inputs do not give the same bits twice (some ops on GPUs), this
# share of the largest number counts as equal.
_ROUNDING = 1e-5

# Maps inputs [rows, ...] to what has to be the same for the first row.
FirstRow = Callable[[Any], Sequence[tf.Tensor]]


def rows_mix(first_row: FirstRow, inputs: Any) -> bool | None:
    """Returns whether rows influence each other.

    Args:
        first_row: Predicts, and returns what belongs to the first row.
        inputs: Structure of arrays or tensors [rows, ...], at least one row.

    Returns:
        `None` if it could not be found out: all rows are the same, and no
        others could be made; or outputs differ from one call to the next.
    """
    whole = keras.tree.map_structure(_few_rows, inputs)
    for replace in (_copied, _changed, _reversed):
        other = keras.tree.map_structure(replace, whole)
        if _same_inputs(whole, other):
            continue
        try:
            return _differs(first_row, whole, other)
        except tf.errors.OpError:
            # Made-up rows may be none that the model takes.
            if replace is _copied:
                raise
    return None


def require_separate_rows(
    model: Any,
    key: Any,
    first_row: FirstRow,
    inputs: Any,
    why: str,
    instead: str = "",
) -> bool:
    """Raises if rows influence each other; looks once per key.

    Args:
        model: The model.
        key: Tells what is looked at apart from other programs of the model.
        first_row: As in `rows_mix`.
        inputs: As in `rows_mix`.
        why: Why rows have to be separate.
        instead: What else would do, if anything.

    Returns:
        Whether it could be found out.
    """
    mix = found_out(
        model, ("rows mix", *key), lambda: rows_mix(first_row, inputs)
    )
    if mix:
        raise PlanError(
            f"Rows of model `{model.name}` depend on the rest of their batch, "
            f"which {why}. Expected rows that do not influence each other"
            f"{instead}. Received: an output that changes with other rows"
        )
    return mix is not None


def _few_rows(x: Any) -> tf.Tensor:
    """Returns the first row and some others, as far apart as can be."""
    count = int(x.shape[0])
    places = [min(count - 1, (count * n) // (_ROWS - 1)) for n in range(_ROWS)]
    # Of arrays, only these rows are turned into tensors.
    rows = np.concatenate([np.asarray(x[n : n + 1]) for n in places])
    if rows.dtype.kind == "f":
        return tf.convert_to_tensor(rows, keras.config.floatx())
    return tf.convert_to_tensor(rows)


def _copied(x: tf.Tensor) -> tf.Tensor:
    return tf.gather(x, [0] * _ROWS)


def _changed(x: tf.Tensor) -> tf.Tensor:
    if not x.dtype.is_floating:
        return x
    factor, shift = (tf.constant(number, x.dtype) for number in (-1.5, 0.25))
    return tf.concat([x[:1], x[1:] * factor + shift], axis=0)


def _reversed(x: tf.Tensor) -> tf.Tensor:
    if x.shape.rank < 2:
        return x
    return tf.concat([x[:1], tf.reverse(x[1:], [-1])], axis=0)


def _same_inputs(one: Any, other: Any) -> bool:
    return all(
        np.array_equal(np.asarray(a), np.asarray(b))
        for a, b in zip(
            keras.tree.flatten(one), keras.tree.flatten(other), strict=True
        )
    )


def _differs(first_row: FirstRow, whole: Any, other: Any) -> bool | None:
    before, after = (
        [np.asarray(x) for x in first_row(rows)] for rows in (whole, other)
    )
    if _all(_same_bits, before, after):
        return False
    again = [np.asarray(x) for x in first_row(whole)]
    if _all(_same_bits, before, again):
        return True
    if not _all(_close, before, again):
        return None  # Noise that is not ours: nothing can be told.
    return not _all(_close, before, after)


def _all(same: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    return all(same(a, b) for a, b in zip(one, other, strict=True))


def _same_bits(one: Any, other: Any) -> bool:
    return bool(one.shape == other.shape and one.tobytes() == other.tobytes())


def _close(one: Any, other: Any) -> bool:
    size = np.max(np.abs(one), initial=1e-30)
    return bool(
        one.shape == other.shape
        and np.allclose(one, other, rtol=_ROUNDING, atol=_ROUNDING * size)
    )
