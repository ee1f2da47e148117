# SPDX-License-Identifier: Apache-2.0
"""Which flow a call of a layer is.

Only the very classes of Keras count: a subclass may compute anything. So may a
call with more than inputs: a mask, or training mode.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.sparsity.activations import apply
from keras_bayesdrop.sparsity.activations import is_elementwise
from keras_bayesdrop.sparsity.flow import Flow
from keras_bayesdrop.sparsity.flow import Joined
from keras_bayesdrop.sparsity.flow import Reshaped
from keras_bayesdrop.sparsity.flow import Same
from keras_bayesdrop.sparsity.flow import Tiled
from keras_bayesdrop.sparsity.weighted import KernelFlow
from keras_bayesdrop.sparsity.weighted import NormFlow

layers = keras.layers


def width(spec: Any) -> int:
    """Returns the number of channels of a value, 0 if it has no such axis."""
    shape = spec.shape
    return int(shape[-1]) if len(shape) > 1 and shape[-1] is not None else 0


def flow_of(node: Node, specs: Sequence[Any], shared: bool) -> Flow:
    """Returns how channels pass through a node.

    Args:
        node: A call of a layer.
        specs: Of all values of the graph.
        shared: Whether the layer is called elsewhere, too.

    Returns:
        The flow; the one that keeps all channels if it is not known.
    """
    layer = node.operation
    stop = Flow(layer, [width(specs[n]) for n in node.outputs])
    given = [specs[n] for n in node.inputs]
    make = _FLOWS.get(type(layer))
    if make is None or len(node.outputs) != 1:
        return stop
    if not given or not all(map(width, given)) or not stop.widths[0]:
        return stop
    kwargs = node.fill(given)[1]
    if any(
        value is not None and value is not False for value in kwargs.values()
    ):
        return stop
    if shared and make not in _WITHOUT_STATE:
        return stop
    return make(layer, given, stop.widths) or stop


Make = Callable[[Any, Sequence[Any], Sequence[int]], Flow | None]


def _channels_last(layer: Any) -> bool:
    return getattr(layer, "data_format", "channels_last") == "channels_last"


def _same(compute: Callable[..., Float64Array]) -> Make:
    """Makes the flow of a layer that maps constants by `compute`."""

    def make(
        layer: Any, given: Sequence[Any], widths: Sequence[int]
    ) -> Flow | None:
        if len(given) != 1 or not _channels_last(layer):
            return None
        if width(given[0]) != widths[0]:
            return None
        return Same(layer, widths, compute)

    return make


def _identity(values: Float64Array) -> Float64Array:
    return values


_keep = _same(_identity)
# A border of zeros is put around: only zero is the same there.
_pad = _same(lambda values: np.where(values == 0, values, np.nan))


def _noise(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    shape = getattr(layer, "noise_shape", None)
    if shape is not None and tuple(shape)[-1] not in (None, 1):
        return None  # It names the number of channels.
    return _keep(layer, given, widths)


def _activation(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if not is_elementwise(layer.activation):
        return None
    return _same(lambda x: apply(layer.activation, x))(layer, given, widths)


def _activation_layer(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    return _same(lambda x: apply(layer.call, x))(layer, given, widths)


def _upsampling(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    # Others may not keep a constant.
    if getattr(layer, "interpolation", "nearest") not in (
        "nearest",
        "bilinear",
    ):
        return None
    return _keep(layer, given, widths)


def _flatten(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(given) != 1 or not _channels_last(layer):
        return None
    return Tiled(layer, widths)


def _reshape(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(given) != 1 or widths[0] % width(given[0]):
        return None
    return Reshaped(layer, widths)


def _merge(compute: Callable[..., Float64Array]) -> Make:
    """Makes the flow of a layer that merges inputs of one width."""

    def make(
        layer: Any, given: Sequence[Any], widths: Sequence[int]
    ) -> Flow | None:
        ranks = {len(spec.shape) for spec in given}
        if len(ranks) != 1 or {width(spec) for spec in given} != {widths[0]}:
            return None
        return Same(layer, widths, compute)

    return make


def _concatenate(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if layer.axis not in (-1, len(given[0].shape) - 1):
        return None
    if sum(map(width, given)) != widths[0]:
        return None
    return Joined(layer, widths)


def _dense(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(given) != 1 or not _is_plain(layer):
        return None
    return KernelFlow(layer, widths, padded=False)


def _convolution(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(given) != 1 or not _is_plain(layer) or not _channels_last(layer):
        return None
    if layer.groups != 1:
        return None
    # A kernel of one position never reaches over the border.
    one = all(size == 1 for size in layer.kernel_size)
    return KernelFlow(layer, widths, layer.padding != "valid" and not one)


def _is_plain(layer: Any) -> bool:
    """Whether the kernel is an array of numbers and nothing more."""
    return getattr(layer, "quantization_mode", None) is None and not getattr(
        layer, "lora_enabled", False
    )


def _batch_normalization(
    layer: Any, given: Sequence[Any], widths: Sequence[int]
) -> Flow | None:
    if len(given) != 1 or layer.axis not in (-1, len(given[0].shape) - 1):
        return None
    return NormFlow(layer, widths)


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
# Those whose layers a copy serves at any number of channels.
_WITHOUT_STATE = (
    _keep,
    _pad,
    _noise,
    _activation,
    _activation_layer,
    _upsampling,
    _flatten,
)
