# SPDX-License-Identifier: Apache-2.0
"""Finds out what a Keras layer does to the channels of its input.

A layer that has none of the forms of `thin_forms` has the reason instead, and
gets all channels.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.plan.layer_forms import FlattenForm
from keras_bayesdrop.plan.layer_forms import IdentityForm
from keras_bayesdrop.plan.layer_forms import ScaleShiftForm
from keras_bayesdrop.plan.layer_forms import form_of
from keras_bayesdrop.plan.thin_forms import DTYPES
from keras_bayesdrop.plan.thin_forms import DepthwiseForm
from keras_bayesdrop.plan.thin_forms import EachForm
from keras_bayesdrop.plan.thin_forms import JoinForm
from keras_bayesdrop.plan.thin_forms import MergeForm
from keras_bayesdrop.plan.thin_forms import ProductForm
from keras_bayesdrop.plan.thin_forms import ThinForm

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
    if layer.rank == 3 and any(rate != 1 for rate in dilations):
        # TensorFlow must know the number of channels then.
        return f"whole channels: dilation rate {layer.dilation_rate}"
    convolve = tf.nn.conv2d if layer.rank == 2 else tf.nn.convolution
    padding = "VALID" if layer.padding == "causal" else layer.padding.upper()
    before = 0
    if layer.padding == "causal":
        before = dilations[0] * (layer.kernel_size[0] - 1)

    def product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        if before:
            x = tf.pad(x, [[0, 0], [before, 0], [0, 0]])
        return convolve(x, kernel, strides, padding, dilations=dilations)

    return _product(layer, product, (-2, -1))


def _dense(layer: Any) -> ThinForm | str:
    return _product(layer, _matmul, (-2, -1))


def _transposed(layer: Any) -> ThinForm | str:
    strides, dilations = list(layer.strides), list(layer.dilation_rate)
    padding = layer.padding.upper()

    def product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        whole = (None, *x.shape[1:-1], layer.kernel.shape[-1])
        sizes = layer.compute_output_shape(whole)[1:-1]
        shape = [tf.shape(x)[0], *sizes, tf.shape(kernel)[-2]]
        y = tf.nn.conv_transpose(
            x, kernel, tf.stack(shape), strides, padding, dilations=dilations
        )
        y.set_shape([None, *sizes, None])
        return y

    return _product(layer, product, (-1, -2), transposed=True)


def _why_not_depthwise(layer: Any) -> str:
    """Returns why a convolution of each channel gets all of them, or `""`."""
    if layer.depth_multiplier != 1:
        return f"whole channels: depth multiplier {layer.depth_multiplier}"
    # TensorFlow must know the number of channels then.
    if any(rate != 1 for rate in layer.dilation_rate):
        return f"whole channels: dilation rate {layer.dilation_rate}"
    return ""


def _depthwise(layer: Any) -> ThinForm | str:
    if why := _why_not_depthwise(layer):
        return why
    if not is_elementwise(layer.activation):
        return "its activation gets all channels"
    activation = _activation_of(layer)
    keeps_zero = layer.bias is None and any(
        activation is getattr(keras.activations, name)
        for name, (zero, _) in ELEMENTWISE.items()
        if zero
    )

    product = _depthwise_product(layer)
    return DepthwiseForm(_weights_of(layer), product, activation, keeps_zero)


def _depthwise_product(
    layer: Any,
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    def product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return keras.ops.depthwise_conv(
            x,
            kernel,
            strides=layer.strides,
            padding=layer.padding,
            dilation_rate=layer.dilation_rate,
            data_format=layer.data_format,
        )

    return product


def _separable(layer: Any) -> ThinForm | str:
    if why := _why_not_depthwise(layer):
        return why
    dtype = layer.compute_dtype

    def weights() -> tuple[tf.Tensor, tf.Tensor | None]:
        bias = None if layer.bias is None else tf.cast(layer.bias, dtype)
        kernel = tf.cast(layer.pointwise_kernel, dtype)
        return tf.reshape(kernel, kernel.shape[-2:]), bias

    first = DepthwiseForm(
        lambda: (tf.cast(layer.depthwise_kernel, dtype), None),
        _depthwise_product(layer),
        keras.activations.linear,
        keeps_zero=True,
    )
    return ProductForm(
        weights,
        _matmul,
        _activation_of(layer),
        is_elementwise(layer.activation),
        tuple(layer.pointwise_kernel.shape[-2:]),
        (-2, -1),
        places=1,
        first=first,
    )


def _matmul(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    return tf.tensordot(x, kernel, axes=1)


def _activation_of(layer: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    if layer.activation is None:
        return keras.activations.linear  # type: ignore[no-any-return]
    return layer.activation  # type: ignore[no-any-return]


def _weights_of(
    layer: Any,
) -> Callable[[], tuple[tf.Tensor, tf.Tensor | None]]:
    dtype = layer.compute_dtype

    def weights() -> tuple[tf.Tensor, tf.Tensor | None]:
        bias = None if layer.bias is None else tf.cast(layer.bias, dtype)
        return tf.cast(layer.kernel, dtype), bias

    return weights


def _product(
    layer: Any,
    product: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    axes: tuple[int, int],
    transposed: bool = False,
) -> ProductForm:
    shape = tuple(layer.kernel.shape)
    return ProductForm(
        _weights_of(layer),
        product,
        _activation_of(layer),
        is_elementwise(layer.activation),
        (shape[axes[0]], shape[axes[1]]),
        axes,
        math.prod(shape[:-2]),
        transposed,
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
    layers.Conv1DTranspose: _transposed,
    layers.Conv2DTranspose: _transposed,
    layers.Conv3DTranspose: _transposed,
    layers.DepthwiseConv1D: _depthwise,
    layers.DepthwiseConv2D: _depthwise,
    layers.SeparableConv1D: _separable,
    layers.SeparableConv2D: _separable,
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
