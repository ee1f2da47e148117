# SPDX-License-Identifier: Apache-2.0
"""Chooses the flow of channels through a call of a layer.

Only exact Keras classes have a flow, because a subclass may compute anything. A
call with more than inputs, such as a mask or training mode, has none either.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.sparsity._channel_flows import ConcatenatedChannels
from keras_bayesdrop.sparsity._channel_flows import Flow
from keras_bayesdrop.sparsity._channel_flows import KernelChannels
from keras_bayesdrop.sparsity._channel_flows import NormalizedChannels
from keras_bayesdrop.sparsity._channel_flows import ReshapedChannels
from keras_bayesdrop.sparsity._channel_flows import SameChannels
from keras_bayesdrop.sparsity._channel_flows import TiledChannels
from keras_bayesdrop.sparsity._elementwise import apply
from keras_bayesdrop.sparsity._elementwise import is_elementwise

layers = keras.layers


def width(spec: Any) -> int:
    """Returns the number of channels of a value, 0 without such an axis."""
    shape = spec.shape
    return int(shape[-1]) if len(shape) > 1 and shape[-1] is not None else 0


def flow_of(node: Node, specs: Sequence[Any], shared: bool) -> Flow:
    """Returns the flow of channels through a node.

    Args:
        node: A call of a layer.
        specs: Specs of all values of the graph.
        shared: Whether the layer has other calls as well.

    Returns:
        The flow; for an unknown layer one that keeps all channels.
    """
    layer = node.operation
    unknown = Flow(layer, [width(specs[n]) for n in node.outputs])
    inputs = [specs[n] for n in node.inputs]
    make = _FLOWS.get(type(layer))
    if make is None or len(node.outputs) != 1:
        return unknown
    if not inputs or not all(map(width, inputs)) or not unknown.widths[0]:
        return unknown
    kwargs = node.fill(inputs)[1]
    if any(
        value is not None and value is not False for value in kwargs.values()
    ):
        return unknown
    if shared and make not in _WITHOUT_STATE:
        return unknown
    return make(layer, inputs, unknown.widths) or unknown


Make = Callable[[Any, Sequence[Any], Sequence[int]], Flow | None]


def _channels_last(layer: Any) -> bool:
    return getattr(layer, "data_format", "channels_last") == "channels_last"


def _same(compute: Callable[..., Float64Array]) -> Make:
    """Creates the flow of a layer that maps constants by `compute`."""

    def make(
        layer: Any, inputs: Sequence[Any], widths: Sequence[int]
    ) -> Flow | None:
        if len(inputs) != 1 or not _channels_last(layer):
            return None
        if width(inputs[0]) != widths[0]:
            return None
        return SameChannels(layer, widths, compute)

    return make


def _identity(values: Float64Array) -> Float64Array:
    return values


_keep = _same(_identity)
# The padding is zero, so only the constant zero stays constant.
_pad = _same(lambda values: np.where(values == 0, values, np.nan))


def _noise(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    shape = getattr(layer, "noise_shape", None)
    if shape is not None and tuple(shape)[-1] not in (None, 1):
        return None  # The noise shape fixes the number of channels.
    return _keep(layer, inputs, widths)


def _activation(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if not is_elementwise(layer.activation):
        return None
    return _same(lambda x: apply(layer.activation, x))(layer, inputs, widths)


def _activation_layer(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    return _same(lambda x: apply(layer.call, x))(layer, inputs, widths)


def _upsampling(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    # Other interpolations may change a constant.
    if getattr(layer, "interpolation", "nearest") not in (
        "nearest",
        "bilinear",
    ):
        return None
    return _keep(layer, inputs, widths)


def _flatten(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(inputs) != 1 or not _channels_last(layer):
        return None
    return TiledChannels(layer, widths)


def _reshape(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(inputs) != 1 or widths[0] % width(inputs[0]):
        return None
    return ReshapedChannels(layer, widths)


def _merge(compute: Callable[..., Float64Array]) -> Make:
    """Creates the flow of a layer that merges inputs of one width."""

    def make(
        layer: Any, inputs: Sequence[Any], widths: Sequence[int]
    ) -> Flow | None:
        ranks = {len(spec.shape) for spec in inputs}
        if len(ranks) != 1 or {width(spec) for spec in inputs} != {widths[0]}:
            return None
        return SameChannels(layer, widths, compute)

    return make


def _concatenate(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if layer.axis not in (-1, len(inputs[0].shape) - 1):
        return None
    if sum(map(width, inputs)) != widths[0]:
        return None
    return ConcatenatedChannels(layer, widths)


def _dense(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(inputs) != 1 or not _is_plain(layer):
        return None
    return KernelChannels(layer, widths, padded=False)


def _convolution(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(inputs) != 1 or not _is_plain(layer) or not _channels_last(layer):
        return None
    if layer.groups != 1:
        return None
    # A kernel of one position never covers the border.
    one = all(size == 1 for size in layer.kernel_size)
    return KernelChannels(layer, widths, layer.padding != "valid" and not one)


def _is_plain(layer: Any) -> bool:
    """Returns True if the kernel is not quantized and has no LoRA factors."""
    return getattr(layer, "quantization_mode", None) is None and not getattr(
        layer, "lora_enabled", False
    )


def _batch_normalization(
    layer: Any, inputs: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(inputs) != 1 or layer.axis not in (-1, len(inputs[0].shape) - 1):
        return None
    return NormalizedChannels(layer, widths)


_FLOWS: dict[type, Make] = {
    layers.Dense: _dense,
    layers.Conv1D: _convolution,
    layers.Conv2D: _convolution,
    layers.Conv3D: _convolution,
    layers.BatchNormalization: _batch_normalization,
    layers.Activation: _activation,
    layers.ReLU: _activation_layer,
    layers.LeakyReLU: _activation_layer,
    layers.ELU: _activation_layer,
    layers.Flatten: _flatten,
    layers.Reshape: _reshape,
    layers.Concatenate: _concatenate,
    layers.Add: _merge(lambda *x: np.sum(x, axis=0)),
    layers.Average: _merge(lambda *x: np.mean(x, axis=0)),
    layers.Maximum: _merge(lambda *x: np.max(x, axis=0)),
    layers.Minimum: _merge(lambda *x: np.min(x, axis=0)),
    layers.Multiply: _merge(lambda *x: np.prod(x, axis=0)),
    layers.Subtract: _merge(lambda x, y: x - y),
    layers.Dropout: _noise,
    layers.AlphaDropout: _noise,
    **dict.fromkeys(
        (
            layers.ActivityRegularization,
            layers.GaussianDropout,
            layers.GaussianNoise,
            layers.Identity,
            layers.RepeatVector,
            layers.SpatialDropout1D,
            layers.SpatialDropout2D,
            layers.SpatialDropout3D,
            layers.AveragePooling1D,
            layers.AveragePooling2D,
            layers.AveragePooling3D,
            layers.MaxPooling1D,
            layers.MaxPooling2D,
            layers.MaxPooling3D,
            layers.GlobalAveragePooling1D,
            layers.GlobalAveragePooling2D,
            layers.GlobalAveragePooling3D,
            layers.GlobalMaxPooling1D,
            layers.GlobalMaxPooling2D,
            layers.GlobalMaxPooling3D,
            layers.Cropping1D,
            layers.Cropping2D,
            layers.Cropping3D,
        ),
        _keep,
    ),
    **dict.fromkeys(
        (layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D),
        _pad,
    ),
    **dict.fromkeys(
        (layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D),
        _upsampling,
    ),
}
# Flows of layers whose copy works with any number of channels.
_WITHOUT_STATE = (
    _keep,
    _pad,
    _noise,
    _activation,
    _activation_layer,
    _upsampling,
    _flatten,
)
