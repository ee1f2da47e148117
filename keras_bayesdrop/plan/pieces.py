# SPDX-License-Identifier: Apache-2.0
"""What a layer computes in inference mode, in terms a compiled engine knows.

    Dense        y = activation(x W + b), over the last axis
    Affine       y = x * scale + shift, over the last axis
    Elementwise  y = activation(x)
    Flatten      [rows, ...] to [rows, units], units in row-major order
    Identity     y = x

Anything else is described by the reason why it is none of these.
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
class Dense:
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
class Affine:
    """A factor and a summand per unit.

    Attributes:
        terms: Returns both as they are when called.
    """

    terms: Callable[[], tuple[tf.Tensor, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """An activation alone."""

    activation: str


@dataclasses.dataclass(frozen=True)
class Flatten:
    """Moves all axes but the first into one."""


@dataclasses.dataclass(frozen=True)
class Identity:
    """Hands its input on."""


Piece = Dense | Affine | Elementwise | Flatten | Identity


def piece_of(operation: Any) -> Piece | str:
    """Returns what an operation computes, or why it is none of the pieces.

    Only the very classes of Keras count: a subclass may compute anything.
    """
    describe = _PIECES.get(type(operation))
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


def _dense(layer: Any) -> Piece | str:
    activation = _activation_name(layer.activation)
    if activation is None:
        return _unknown(layer.activation)
    dtype = layer.compute_dtype
    return Dense(
        lambda: tf.cast(layer.kernel, dtype),
        None if layer.bias is None else lambda: tf.cast(layer.bias, dtype),
        activation,
        tuple(layer.kernel.shape),
    )


def _batch_normalization(layer: Any) -> Piece | str:
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

    return Affine(terms)


def _activation(layer: Any) -> Piece | str:
    name = _activation_name(layer.activation)
    return _unknown(layer.activation) if name is None else Elementwise(name)


def _relu(layer: Any) -> Piece | str:
    plain = (
        layer.max_value is None
        and not layer.negative_slope
        and not layer.threshold
    )
    return Elementwise("relu") if plain else "ReLU with settings of its own"


def _leaky_relu(layer: Any) -> Piece | str:
    # The layer's default is 0.3, the function's 0.2.
    if float(layer.negative_slope) == 0.2:
        return Elementwise("leaky_relu")
    return f"LeakyReLU of slope {float(layer.negative_slope):g}, not 0.2"


def _elu(layer: Any) -> Piece | str:
    if float(layer.alpha) == 1.0:
        return Elementwise("elu")
    return f"ELU with alpha {float(layer.alpha):g}, not 1"


def _softmax(layer: Any) -> Piece | str:
    if layer.axis == -1:
        return Elementwise("softmax")
    return f"softmax over axis {layer.axis}"


def _flatten(layer: Any) -> Piece | str:
    if layer.data_format == "channels_last":
        return Flatten()
    return "flattens channels first"


_PIECES: dict[type, Callable[[Any], Piece | str]] = {
    keras.layers.Dense: _dense,
    keras.layers.BatchNormalization: _batch_normalization,
    keras.layers.Activation: _activation,
    keras.layers.ReLU: _relu,
    keras.layers.LeakyReLU: _leaky_relu,
    keras.layers.ELU: _elu,
    keras.layers.Softmax: _softmax,
    keras.layers.Flatten: _flatten,
    keras.layers.Identity: lambda layer: Identity(),
    keras.layers.ActivityRegularization: lambda layer: Identity(),
}
