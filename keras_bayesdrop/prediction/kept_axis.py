# SPDX-License-Identifier: Apache-2.0
"""Follows the last axis of an output through layers that keep its meaning.

Such a layer moves, selects or averages values. Probabilities stay in [0, 1],
and a distribution over an axis stays one as long as that axis stays whole.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

layers = keras.layers

_SAME = (layers.Identity, layers.ActivityRegularization)
_SAME_OPERATIONS = {"Cast", "Copy", "StopGradient"}
_RESHAPED = (layers.Reshape, layers.Flatten)
_RESHAPED_OPERATIONS = {"ExpandDims", "Reshape", "Squeeze"}
# They average, repeat or drop places, if channels are on the last axis.
_PLACES = (
    layers.Cropping1D,
    layers.Cropping2D,
    layers.Cropping3D,
    layers.GlobalAveragePooling1D,
    layers.GlobalAveragePooling2D,
    layers.GlobalAveragePooling3D,
    layers.RepeatVector,
    layers.UpSampling1D,
    layers.UpSampling2D,
    layers.UpSampling3D,
)
_CONVEX = ("nearest", "bilinear")


@dataclasses.dataclass(frozen=True)
class Passed:
    """An operation that keeps the meaning of values.

    Attributes:
        axis: Axis of its inputs, negative, that becomes the axis asked about;
            `None` if none does as a whole.
    """

    axis: int | None


def before(
    operation: Any,
    inputs: Sequence[Sequence[int | None]],
    output: Sequence[int | None],
    axis: int | None,
) -> Passed | None:
    """Returns the axis of the inputs that an axis of the output comes from.

    Args:
        operation: A layer or operation of Keras.
        inputs: Shapes of the values that it takes.
        output: Shape of the value that it returns.
        axis: Axis of the output, negative, or `None`.

    Returns:
        `None` if the operation gives values another meaning.
    """
    name = type(operation).__name__
    plain = not isinstance(operation, keras.Layer)
    if isinstance(operation, _SAME) or (plain and name in _SAME_OPERATIONS):
        return Passed(axis)
    if isinstance(operation, layers.Average):
        return Passed(axis)
    if isinstance(operation, layers.Concatenate):
        joined = operation.axis % len(output) - len(output)
        return Passed(None if axis == joined else axis)
    if len(inputs) != 1:
        return None
    (shape,) = inputs
    if isinstance(operation, _RESHAPED) or (
        plain and name in _RESHAPED_OPERATIONS
    ):
        return Passed(_through_reshape(operation, shape, output, axis))
    if isinstance(operation, layers.Permute):
        order = (0, *operation.dims)
        return Passed(_through_order(order, axis))
    if plain and name == "Transpose":
        order = operation.axes or tuple(reversed(range(len(shape))))
        return Passed(_through_order(order, axis))
    if plain and name == "GetItem":
        return Passed(None)
    if isinstance(operation, _PLACES):
        return _through_places(operation, axis)
    return None


def _through_reshape(
    operation: Any,
    shape: Sequence[int | None],
    output: Sequence[int | None],
    axis: int | None,
) -> int | None:
    """Returns the last axis if a reshape keeps it whole."""
    channels_first = getattr(operation, "data_format", "") == "channels_first"
    if channels_first and len(shape) > 2:
        return None  # `Flatten` moves the channels first.
    same = shape[-1] is not None and shape[-1] == output[-1]
    return -1 if axis == -1 and same else None


def _through_order(order: Sequence[int], axis: int | None) -> int | None:
    """Returns the axis that a permutation puts in a place."""
    if axis is None:
        return None
    rank = len(order)
    return order[axis] % rank - rank


def _through_places(operation: Any, axis: int | None) -> Passed | None:
    last = getattr(operation, "data_format", "channels_last") == "channels_last"
    if getattr(operation, "interpolation", "nearest") not in _CONVEX:
        return None  # Weights below 0: no mean.
    return Passed(axis if last and axis == -1 else None)
