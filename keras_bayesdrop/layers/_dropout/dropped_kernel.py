# SPDX-License-Identifier: Apache-2.0
"""Rows of a kernel that a mask on the inputs of a layer drops.

Dropping an input unit sets a row of the kernel to zero: all weights that
multiply this unit. The row depends on the layer:

    Dense           a feature, and its row of the kernel
    EinsumDense     an index of the axes that input and kernel share
    Conv            a channel: the mask is the same at all places of a map
    DepthwiseConv   a channel
    SeparableConv   a channel, and its row of the depthwise kernel
"""

import math
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError

_DENSE = (keras.layers.Dense, keras.layers.EinsumDense)
_SEPARABLE = (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
_CONV = (
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.DepthwiseConv1D,
    keras.layers.DepthwiseConv2D,
    *_SEPARABLE,
)
_ACCEPTED = (*_DENSE, *_CONV)


def check_inner_layer(layer: Any) -> Any:
    """Returns `layer` if its kind is one of the table above."""
    if not isinstance(layer, _ACCEPTED):
        names = ", ".join(each.__name__ for each in _ACCEPTED)
        raise BayesdropError(
            "Invalid value for argument `layer`. Expected one of the layers "
            f"{names}. Received: layer={layer!r} (of type "
            f"{type(layer).__name__})"
        )
    if isinstance(layer, keras.layers.EinsumDense):
        shared, batch = _shared_axes(layer.equation)
        if not shared or batch in shared:
            raise BayesdropError(
                "The equation of the wrapped `EinsumDense` has no input units "
                "to drop. Expected a kernel that shares an axis with the "
                "input, and not its batch axis, as 'abc,cd->abd' does. "
                f"Received: equation={layer.equation!r}"
            )
    return layer


def noise_shape(layer: Any) -> tuple[int | None, ...] | None:
    """Returns the shape of the mask before `layer`, as in Keras' dropout."""
    if not isinstance(layer, _CONV):
        return None
    places = [1] * layer.rank
    if layer.data_format == "channels_first":
        return (None, None, *places)
    return (None, *places, None)


def dropped_kernel(layer: Any) -> Any:
    """Returns the kernel of a built layer, of which a mask drops rows."""
    if isinstance(layer, _SEPARABLE):
        return layer.depthwise_kernel
    return layer.kernel


def count_units(layer: Any, input_shape: Sequence[int | None]) -> int:
    """Returns how many rows the kernel of a built layer has."""
    if isinstance(layer, keras.layers.EinsumDense):
        kernel = _operands(layer.equation)[1]
        shared, _ = _shared_axes(layer.equation)
        sizes = zip(kernel, layer.kernel.shape, strict=True)
        return math.prod(int(size) for axis, size in sizes if axis in shared)
    first = getattr(layer, "data_format", None) == "channels_first"
    units = input_shape[1 if first else -1]
    assert units is not None  # the layer would not have been built
    return units


def _shared_axes(equation: str) -> tuple[set[str], str | None]:
    """Returns the axes that input and kernel share, and the batch axis.

    The batch axis is `None` where an ellipsis stands for it.
    """
    inputs, kernel = _operands(equation)
    batch = None if inputs.startswith("...") else inputs[0]
    return set(inputs) & set(kernel), batch


def _operands(equation: str) -> list[str]:
    """Returns the axes of the input and those of the kernel."""
    return equation.split("->")[0].replace(" ", "").split(",")
