# SPDX-License-Identifier: Apache-2.0
"""Selections of rows and outputs of a prediction."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive.heads import Regression
from keras_bayesdrop.predictive.rows import ROW_AXES
from keras_bayesdrop.predictive.rows import row_index
from keras_bayesdrop.predictive.select import quantities_of

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive

# Arrays with an entry for each row, but none for each output.
_OF_ROWS = ("num_samples_used",)


def label_shape(p: "Predictive") -> tuple[int, ...]:
    """Returns the shape of the outputs of a row, without the classes."""
    axes = p.mean.ndim - quantities_of(p.head).class_axes
    return p.mean.shape[1:axes]


def select(p: "Predictive", key: Any) -> "Predictive":
    """Returns the prediction for some rows, and some outputs of these.

    Args:
        p: The prediction.
        key: A selection of rows; or a tuple of it and a selection for each
            axis of the outputs, in which `...` stands for whole axes.
    """
    keys = _whole_key(p, key) if isinstance(key, tuple) else [key]
    rows = row_index(keys[0], len(p))
    shape = label_shape(p)
    outputs = [
        _output_index(each, axis, shape[axis])
        for axis, each in enumerate(keys[1:])
    ]
    changes: dict[str, Any] = {}
    for name, axis in ROW_AXES.items():
        array = getattr(p, name)
        if array is None:
            continue
        # Last axis first: an integer removes its axis.
        if name not in _OF_ROWS:
            for number, index in reversed(list(enumerate(outputs, axis + 1))):
                array = array[(slice(None),) * number + (index,)]
        changes[name] = array[(slice(None),) * axis + (rows,)]
    if len(outputs) == len(shape) and isinstance(p.noise_precision, Sequence):
        # One precision for each entry of the last axis.
        tau = np.asarray(p.noise_precision)[outputs[-1]].tolist()
        changes["head"] = Regression(noise_precision=tau)
    stats = dataclasses.replace(p.stats, num_rows=len(changes["mean"]))
    return dataclasses.replace(p, stats=stats, **changes)


def output_place(p: "Predictive", output: Any) -> tuple[int, ...]:
    """Returns the index of one output within a row.

    Args:
        p: The prediction.
        output: Number of the output, counted along the flattened axes; or a
            tuple with an integer for each axis. `None` if there is only one.
    """
    shape = label_shape(p)
    outputs = math.prod(shape)
    if output is None:
        if outputs != 1:
            raise BayesdropError(
                "A plot shows one output. Expected a prediction with one "
                f"output, or the argument `output` from 0 to {outputs - 1}. "
                f"Received: output=None and {outputs} outputs"
            )
        output = 0
    if isinstance(output, tuple):
        inside = len(output) == len(shape) and all(
            0 <= check_int(index, "output") < length
            for index, length in zip(output, shape, strict=True)
        )
        if not inside:
            expected = f"an index of outputs of shape {shape}"
            raise invalid("output", output, expected)
        return tuple(int(index) for index in output)
    output = check_int(output, "output", at_least=0)
    if output >= outputs:
        raise invalid("output", output, f"an integer below {outputs}")
    return tuple(int(index) for index in np.unravel_index(output, shape))


def one_output(p: "Predictive", output: Any) -> "Predictive":
    """Returns one output of a prediction, with a mean `[rows]`.

    The mean of classes is `[rows, classes]`.

    Args:
        p: The prediction.
        output: As in `output_place`.
    """
    return select(p, (slice(None), *output_place(p, output)))


def targets_of(
    p: "Predictive", y: npt.ArrayLike, output: Any
) -> npt.NDArray[Any]:
    """Returns the targets of one output.

    Targets `[rows]` belong to that output; targets `[rows, outputs]`, or
    one-hot labels of all outputs, to all of them.

    Args:
        p: The prediction.
        y: Targets.
        output: As in `output_place`.
    """
    array = as_numbers("y", y)
    whole = (len(p), *label_shape(p))
    if array.shape[: len(whole)] == whole and math.prod(whole) > len(p):
        index: Any = (slice(None), *output_place(p, output))
        return np.asarray(array[index])
    return array


def _whole_key(p: "Predictive", key: tuple[Any, ...]) -> list[Any]:
    """Returns a selection for the rows and for each axis of the outputs."""
    axes = 1 + len(label_shape(p))
    dots = [place for place, each in enumerate(key) if each is Ellipsis]
    count = len(key) - len(dots)
    if len(dots) > 1 or count > axes or not key:
        classes = quantities_of(p.head).class_axes
        kept = " The probabilities of a row stay together." * classes
        raise BayesdropError(
            "Invalid selection of rows and outputs. Expected at most "
            f"{axes} indices, for mean.shape={p.mean.shape} and "
            f"head={p.task!r}.{kept} Received: {count} indices"
        )
    fill = [slice(None)] * (axes - count)
    place = dots[0] if dots else len(key)
    return [*key[:place], *fill, *key[place + 1 :]]


def _output_index(
    index: Any, axis: int, length: int
) -> int | slice | npt.NDArray[Any]:
    """Returns the selection on one axis of the outputs."""
    if isinstance(index, slice):
        return index
    array = np.asarray(index)
    if array.size == 0 and isinstance(index, Sequence):
        array = array.astype(np.intp)  # An empty list has no type of its own.
    mask = array.dtype == np.bool_ and array.shape == (length,)
    whole = np.issubdtype(array.dtype, np.integer) and array.ndim <= 1
    if not mask and not (
        whole and np.all((array >= -length) & (array < length))
    ):
        raise BayesdropError(
            f"Invalid selection on axis {axis} of the outputs. Expected an "
            f"integer below {length}, a slice, or a list of integers or of "
            f"{length} bools. Received: {_shorten(index)}"
        )
    return array if array.ndim else int(array)


def _shorten(index: Any) -> str:
    """Returns a selection as text, of one line."""
    text = " ".join(repr(index).split())
    return text if len(text) < 60 else f"{text[:57]}..."
