# SPDX-License-Identifier: Apache-2.0
"""Describes what a layer does to the channels of its input.

    ProductForm     a convolution or a matmul: mixes all channels
    EachForm        the same function of every channel by itself
    ScaleShiftForm  a factor and a summand per channel
    MergeForm       a function of the same channel of several inputs
    JoinForm        puts the channels of its inputs one after another
    FlattenForm     moves places and channels into one axis
    IdentityForm    hands its input on

These layers work on some of the channels as they do on all. Any other layer has
the reason why it has none of these forms, and gets all channels.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.plan.layer_forms import FlattenForm
from keras_bayesdrop.plan.layer_forms import IdentityForm
from keras_bayesdrop.plan.layer_forms import ScaleShiftForm
from keras_bayesdrop.plan.layer_forms import form_of

DTYPES = ("float32", "float64")
layers = keras.layers

# Activations that work on each entry by itself: whether they map 0 to 0, and
# whether f(s x) = s f(x) for s >= 0.
ELEMENTWISE = {
    "linear": (True, True),
    "relu": (True, True),
    "leaky_relu": (True, True),
    "relu6": (True, False),
    "tanh": (True, False),
    "elu": (True, False),
    "selu": (True, False),
    "gelu": (True, False),
    "silu": (True, False),
    "mish": (True, False),
    "softsign": (True, False),
    "hard_silu": (True, False),
    "sigmoid": (False, False),
    "hard_sigmoid": (False, False),
    "softplus": (False, False),
}


@dataclasses.dataclass(frozen=True)
class EachForm:
    """The same function of every channel by itself.

    Attributes:
        keeps_zero: Whether a channel that is 0 stays 0.
        scales: Whether f(s x) = s f(x) for s >= 0.
    """

    keeps_zero: bool
    scales: bool


@dataclasses.dataclass(frozen=True)
class MergeForm:
    """A function of the same channel of several inputs.

    If the channel is 0 in all inputs, then it is 0 in the output.
    """


@dataclasses.dataclass(frozen=True)
class JoinForm:
    """Puts the channels of its inputs one after another."""


@dataclasses.dataclass(frozen=True)
class ProductForm:
    """A product with a kernel over all channels, a bias and an activation.

    Attributes:
        weights: Returns kernel and bias (or `None`) as they are when called.
        product: Maps an input and a kernel, some of whose channels may be left
            out, to the product.
        activate: The activation.
        elementwise: Whether the activation works on each entry by itself.
        sizes: Channels in and out.
        axes: The axes of the kernel that hold them.
        places: Entries of the kernel for a pair of channels.
    """

    weights: Callable[[], tuple[tf.Tensor, tf.Tensor | None]]
    product: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    activate: Callable[[tf.Tensor], tf.Tensor]
    elementwise: bool
    sizes: tuple[int, int]
    axes: tuple[int, int]
    places: int


ThinForm = (
    EachForm
    | MergeForm
    | JoinForm
    | ProductForm
    | ScaleShiftForm
    | FlattenForm
    | IdentityForm
)


def thin_form_of(operation: Any) -> ThinForm | str:
    """Returns what an operation does to channels, or why that is not known.

    Only the very classes of Keras count: a subclass may compute anything.
    """
    describe = _FORMS.get(type(operation))
    kind = type(operation).__name__
    if describe is None:
        return f"{kind} gets all channels"
    if operation.compute_dtype not in DTYPES:
        return f"computes in {operation.compute_dtype}"
    if getattr(operation, "quantization_mode", None) is not None:
        return f"is quantized to {operation.quantization_mode}"
    if getattr(operation, "data_format", None) == "channels_first":
        return "has its channels first"
    return describe(operation)


def is_elementwise(activation: Any) -> bool:
    """Returns whether an activation is known to work on each entry alone."""
    return activation is None or any(
        activation is getattr(keras.activations, name) for name in ELEMENTWISE
    )


def _convolution(layer: Any) -> ThinForm | str:
    if layer.groups != 1:
        return f"whole channels: {layer.groups} groups"
    strides = list(layer.strides)
    dilations = list(layer.dilation_rate)
    padding = "VALID" if layer.padding == "causal" else layer.padding.upper()
    before = 0
    if layer.padding == "causal":
        before = dilations[0] * (layer.kernel_size[0] - 1)

    def product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        if before:
            x = tf.pad(x, [[0, 0], [before, 0], [0, 0]])
        return tf.nn.convolution(
            x, kernel, strides, padding, dilations=dilations
        )

    return _product(layer, product, (-2, -1))


def _dense(layer: Any) -> ThinForm | str:
    return _product(
        layer, lambda x, kernel: tf.tensordot(x, kernel, axes=1), (-2, -1)
    )


def _product(
    layer: Any,
    product: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    axes: tuple[int, int],
) -> ProductForm:
    dtype, shape = layer.compute_dtype, tuple(layer.kernel.shape)

    def weights() -> tuple[tf.Tensor, tf.Tensor | None]:
        bias = None if layer.bias is None else tf.cast(layer.bias, dtype)
        return tf.cast(layer.kernel, dtype), bias

    return ProductForm(
        weights,
        product,
        keras.activations.linear
        if layer.activation is None
        else layer.activation,
        is_elementwise(layer.activation),
        (shape[axes[0]], shape[axes[1]]),
        axes,
        math.prod(shape[:-2]),
    )


def _activation(layer: Any) -> ThinForm | str:
    for name, (keeps_zero, scales) in ELEMENTWISE.items():
        if layer.activation is getattr(keras.activations, name):
            return EachForm(keeps_zero, scales)
    name = getattr(
        layer.activation, "__name__", type(layer.activation).__name__
    )
    return f"activation {name} gets all channels"


def _relu(layer: Any) -> ThinForm | str:
    if layer.threshold:
        return EachForm(keeps_zero=False, scales=False)
    return EachForm(keeps_zero=True, scales=layer.max_value is None)


def _joined(layer: Any) -> ThinForm | str:
    rank = None if layer.input_spec is None else layer.input_spec[0].ndim
    if layer.axis == -1 or (rank is not None and layer.axis == rank - 1):
        return JoinForm()
    return f"joins along axis {layer.axis}"


def _chain_form(layer: Any) -> ThinForm | str:
    form = form_of(layer)
    assert isinstance(form, str | ScaleShiftForm | FlattenForm | IdentityForm)
    return form


def _linear(layer: Any) -> ThinForm | str:
    return EachForm(keeps_zero=True, scales=True)


def _curved(layer: Any) -> ThinForm | str:
    return EachForm(keeps_zero=True, scales=False)


def _merged(layer: Any) -> ThinForm | str:
    return MergeForm()


_FORMS: dict[type, Callable[[Any], ThinForm | str]] = {
    layers.Conv1D: _convolution,
    layers.Conv2D: _convolution,
    layers.Conv3D: _convolution,
    layers.Dense: _dense,
    layers.BatchNormalization: _chain_form,
    layers.Flatten: _chain_form,
    layers.Identity: _chain_form,
    layers.ActivityRegularization: _chain_form,
    layers.Activation: _activation,
    layers.ReLU: _relu,
    layers.LeakyReLU: _linear,
    layers.ELU: _curved,
    layers.Concatenate: _joined,
    **dict.fromkeys(
        (
            layers.Add,
            layers.Subtract,
            layers.Average,
            layers.Maximum,
            layers.Minimum,
            layers.Multiply,
        ),
        _merged,
    ),
    # Pooling takes maxima and means over places; the rest copies and adds.
    **dict.fromkeys(
        (
            layers.MaxPooling1D,
            layers.MaxPooling2D,
            layers.MaxPooling3D,
            layers.AveragePooling1D,
            layers.AveragePooling2D,
            layers.AveragePooling3D,
            layers.GlobalMaxPooling1D,
            layers.GlobalMaxPooling2D,
            layers.GlobalMaxPooling3D,
            layers.GlobalAveragePooling1D,
            layers.GlobalAveragePooling2D,
            layers.GlobalAveragePooling3D,
            layers.ZeroPadding1D,
            layers.ZeroPadding2D,
            layers.ZeroPadding3D,
            layers.Cropping1D,
            layers.Cropping2D,
            layers.Cropping3D,
            layers.UpSampling1D,
            layers.UpSampling2D,
            layers.UpSampling3D,
        ),
        _linear,
    ),
}
