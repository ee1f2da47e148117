# SPDX-License-Identifier: Apache-2.0
"""Assigns the arrays of a file to the inputs of a model."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.cli.data_file import Data
from keras_bayesdrop.cli.problems import problem
from keras_bayesdrop.cli.quiet import warn
from keras_bayesdrop.errors import BayesdropError

_Arrays = dict[str, npt.NDArray[Any]]


def fit_inputs(model: Any, data: Data, chosen: str | None) -> Any:
    """Returns the inputs for a prediction, in the form that the model takes.

    A model with one input takes the chosen array, or the only one, or the one
    with the input's name. A model with several inputs takes arrays by name, or
    the arrays that `np.savez` numbered, in their order.

    Args:
        model: The model.
        data: The arrays of the file.
        chosen: Name of the array to take, or `None`.
    """
    graph = private_keras.graph_of(model)
    inputs = list(graph.inputs) if graph is not None else []
    arrays = data.arrays
    if chosen is not None:
        if chosen not in arrays:
            raise problem(
                data.path,
                f"has no array `{chosen}`",
                f"one of {_listed(arrays)}",
                f"--array {chosen}",
            )
        arrays = {chosen: arrays[chosen]}
    if len(inputs) <= 1:
        return _single(inputs, data, arrays)
    names = [spec.name for spec in inputs]
    numbered = [f"arr_{number}" for number in range(len(names))]
    if set(arrays) == set(numbered):
        arrays = {
            name: arrays[number]
            for name, number in zip(names, numbered, strict=True)
        }
    if not set(names) <= set(arrays):
        raise problem(
            data.path,
            f"does not have the {len(names)} inputs of the model",
            f"a `.npz` file with arrays named {', '.join(names)}",
            _listed(arrays),
        )
    unused = set(arrays) - set(names)
    if unused:
        left_out = _listed(sorted(unused))
        warn(f"`{data.path}`: not an input, left out: {left_out}")
    return {spec.name: _as_input(arrays[spec.name], spec) for spec in inputs}


def _single(inputs: list[Any], data: Data, arrays: _Arrays) -> Any:
    names = [spec.name for spec in inputs]
    if len(arrays) == 1:
        (array,) = arrays.values()
    elif names and names[0] in arrays:
        array = arrays[names[0]]
    elif not names:
        return arrays  # A subclassed model selects its inputs itself.
    else:
        raise problem(
            data.path,
            f"has {len(arrays)} arrays, and the model one input",
            f"one array, or one named {names[0]}, or --array NAME",
            _listed(arrays),
        )
    if not inputs:
        return array
    if data.is_table:
        array = _from_table(data, array, inputs[0])
    return _as_input(array, inputs[0])


def _from_table(data: Data, table: npt.NDArray[Any], spec: Any) -> Any:
    """Reshapes lines of numbers to the shape of an input."""
    shape = tuple(spec.shape[1:])
    width = table.shape[1]
    if None in shape:
        return table
    if math.prod(shape) != width:
        raise problem(
            data.path,
            "has the wrong number of columns",
            f"{math.prod(shape)} feature(s), for an input of shape {shape} "
            "(--columns chooses some)",
            f"{width} column(s)",
        )
    return table.reshape(len(table), *shape)


def _as_input(array: npt.NDArray[Any], spec: Any) -> npt.NDArray[Any]:
    """Converts floats to integers for an integer input, such as tokens."""
    wanted = str(spec.dtype)
    if "int" in wanted and array.dtype.kind == "f":
        rounded = np.rint(array)
        if not np.array_equal(rounded, array):
            raise BayesdropError(
                f"Input `{spec.name}` of the model takes whole numbers. "
                f"Expected {wanted}. Received: fractions, of type "
                f"{array.dtype}"
            )
        return np.asarray(rounded, wanted)
    return array


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" if name else "one array" for name in names)
