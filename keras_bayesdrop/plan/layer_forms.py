# SPDX-License-Identifier: Apache-2.0
"""Describes what a layer computes in terms that a compiled engine knows.

    DenseForm        y = activation(x W + b), over the last axis
    ScaleShiftForm   y = x * scale + shift, over the last axis
    ActivationForm   y = activation(x)
    FlattenForm      [rows, ...] to [rows, units], units in row-major order
    IdentityForm     y = x

These are the forms of inference mode. Any other layer has the reason why it has
none of these forms.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

# By the names that Keras gives them. An activation with other settings than
# Keras' own defaults is another function, and is not one of these.
ACTIVATIONS = (
    "linear",
    "relu",
    "sigmoid",
    "tanh",
    "softmax",
    "elu",
    "selu",
    "gelu",
    "silu",
    "softplus",
    "leaky_relu",
)
# Those that the op has kernels for: on CPUs the last two, on GPUs the first
# three.
DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class DenseForm:
    """A matmul, a bias and an activation.

    Attributes:
        kernel: Returns the kernel [in, out] as it is when called.
        bias: Returns the bias [out], or is `None`.
        activation: One of `ACTIVATIONS`.
        sizes: Units in and out.
    """

    kernel: Callable[[], tf.Tensor]
    bias: Callable[[], tf.Tensor] | None
    activation: str
    sizes: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class ScaleShiftForm:
    """A factor and a summand per unit.

    Attributes:
        terms: Returns both as they are when called.
    """

    terms: Callable[[], tuple[tf.Tensor, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class ActivationForm:
    """An activation alone."""

    activation: str


@dataclasses.dataclass(frozen=True)
class FlattenForm:
    """Moves all axes but the first into one."""


@dataclasses.dataclass(frozen=True)
class IdentityForm:
    """Hands its input on."""


LayerForm = (
    DenseForm | ScaleShiftForm | ActivationForm | FlattenForm | IdentityForm
)


def form_of(operation: Any) -> LayerForm | str:
    """Returns what an operation computes, or why it is none of the forms.

    Only the very classes of Keras count: a subclass may compute anything.
    """
    describe = _FORMS.get(type(operation))
    if describe is None:
        return f"{type(operation).__name__} is not part of a dense chain"
    if operation.compute_dtype not in DTYPES:
        return f"computes in {operation.compute_dtype}"
    if getattr(operation, "quantization_mode", None) is not None:
        return f"is quantized to {operation.quantization_mode}"
    return describe(operation)


def _activation_name(activation: Any) -> str | None:
    """Returns the name of one of Keras' own activation functions."""
    if activation is None:
        return "linear"
    for name in ACTIVATIONS:
        if activation is getattr(keras.activations, name):
            return name
    return None


def _unknown(activation: Any) -> str:
    name = getattr(activation, "__name__", type(activation).__name__)
    return f"activation {name} is not compiled"


def _dense(layer: Any) -> LayerForm | str:
    activation = _activation_name(layer.activation)
    if activation is None:
        return _unknown(layer.activation)
    dtype = layer.compute_dtype
    return DenseForm(
        lambda: tf.cast(layer.kernel, dtype),
        None if layer.bias is None else lambda: tf.cast(layer.bias, dtype),
        activation,
        tuple(layer.kernel.shape),
    )


def _batch_normalization(layer: Any) -> LayerForm | str:
    rank = None if layer.input_spec is None else layer.input_spec.ndim
    last = (-1,) if rank is None else (-1, rank - 1)
    if layer.axis not in last:
        return f"normalizes axis {layer.axis}, not the last"
    if layer.compute_dtype != layer.variable_dtype:
        return f"normalizes in {layer.variable_dtype}"

    def terms() -> tuple[tf.Tensor, tf.Tensor]:
        # The form in which TensorFlow computes it, too.
        scale = tf.math.rsqrt(layer.moving_variance + layer.epsilon)
        if layer.scale:
            scale = scale * layer.gamma
        shift = -layer.moving_mean * scale
        if layer.center:
            shift = shift + layer.beta
        return scale, shift

    return ScaleShiftForm(terms)


def _activation(layer: Any) -> LayerForm | str:
    name = _activation_name(layer.activation)
    return _unknown(layer.activation) if name is None else ActivationForm(name)


def _relu(layer: Any) -> LayerForm | str:
    plain = (
        layer.max_value is None
        and not layer.negative_slope
        and not layer.threshold
    )
    return ActivationForm("relu") if plain else "ReLU with settings of its own"


def _leaky_relu(layer: Any) -> LayerForm | str:
    # The layer's default is 0.3, the function's 0.2.
    if float(layer.negative_slope) == 0.2:
        return ActivationForm("leaky_relu")
    return f"LeakyReLU of slope {float(layer.negative_slope):g}, not 0.2"


def _elu(layer: Any) -> LayerForm | str:
    if float(layer.alpha) == 1.0:
        return ActivationForm("elu")
    return f"ELU with alpha {float(layer.alpha):g}, not 1"


def _softmax(layer: Any) -> LayerForm | str:
    if layer.axis == -1:
        return ActivationForm("softmax")
    return f"softmax over axis {layer.axis}"


def _flatten(layer: Any) -> LayerForm | str:
    if layer.data_format == "channels_last":
        return FlattenForm()
    return "flattens channels first"


_FORMS: dict[type, Callable[[Any], LayerForm | str]] = {
    keras.layers.Dense: _dense,
    keras.layers.BatchNormalization: _batch_normalization,
    keras.layers.Activation: _activation,
    keras.layers.ReLU: _relu,
    keras.layers.LeakyReLU: _leaky_relu,
    keras.layers.ELU: _elu,
    keras.layers.Softmax: _softmax,
    keras.layers.Flatten: _flatten,
    keras.layers.Identity: lambda layer: IdentityForm(),
    keras.layers.ActivityRegularization: lambda layer: IdentityForm(),
}
