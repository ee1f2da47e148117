# SPDX-License-Identifier: Apache-2.0
"""Draws that the code of a layer makes itself, through `keras.random`.

A draw is remade from counter words: one word per number, by the inverse of the
distribution function, like all noise of prediction.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop._core.dims import shape_of_dims
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise.base import as_scalar
from keras_bayesdrop.random.philox import rate_tensor_to_threshold
from keras_bayesdrop.random.philox import rate_to_scale
from keras_bayesdrop.random.philox import rate_to_threshold
from keras_bayesdrop.random.philox import words_to_normal
from keras_bayesdrop.random.philox import words_to_uniform

# Functions that take one word per number they return. `shuffle`, `gamma`,
# `beta` and `binomial` have no such form.
SUPPORTED = (
    "categorical",
    "dropout",
    "normal",
    "randint",
    "truncated_normal",
    "uniform",
)
# Bounds of Keras' truncated normal, in standard deviations.
_TRUNCATED_AT = 2.0


@dataclasses.dataclass(frozen=True)
class HandMade(Noise):
    """Noise in the code of a layer.

    Attributes:
        functions: Functions of `keras.random` that it calls.
        code: Class name of the layer.
    """

    kind: ClassVar[str] = "hand_made"

    functions: tuple[str, ...]
    code: str

    @property
    def active(self) -> bool:
        """Returns whether the noise can change its input at all."""
        return True

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Raises: the code of the layer applies what it draws."""
        raise NotImplementedError

    def describe(self) -> str:
        """Returns the noise in a few characters, for tables."""
        names = ", ".join(self.functions) or "drawn"
        return f"{names} in {self.code}.call"


def is_certain(function: str, arguments: dict[str, Any]) -> Any:
    """Returns the result of a call that draws nothing, else `None`."""
    if function != "dropout":
        return None
    rate, inputs = arguments["rate"], arguments["inputs"]
    if not isinstance(rate, (int, float)):
        return None
    if rate == 0:
        return inputs
    return tf.zeros_like(inputs) if rate >= 1 else None


def shape_of(function: str, arguments: dict[str, Any]) -> list[Any]:
    """Returns the dimensions of the numbers that a call draws."""
    if function == "shuffle":
        return _dims(tf.shape(arguments["x"]))
    if function == "categorical":
        logits = arguments["logits"]
        return [_dims(tf.shape(logits))[0], arguments["num_samples"]]
    if function != "dropout":
        return _dims(arguments["shape"])
    inputs = _dims(tf.shape(arguments["inputs"]))
    shape = arguments["noise_shape"]
    if shape is None:
        return inputs
    if tf.is_tensor(shape):
        return _dims(shape)
    return [
        dim if want is None else want
        for want, dim in zip(shape, inputs, strict=True)
    ]


def static_shape(dims: Sequence[Any]) -> tuple[int | None, ...]:
    """Returns dimensions as ints, `None` where they are not known."""
    return tuple(_static(dim) for dim in dims)


def without_noise(function: str, arguments: dict[str, Any]) -> tf.Tensor:
    """Returns what a call gives where its noise is off: its mean."""
    if function == "dropout":
        return tf.convert_to_tensor(arguments["inputs"])
    if function == "shuffle":
        return tf.convert_to_tensor(arguments["x"])
    dims = shape_of(function, arguments)
    shape = shape_of_dims(dims)
    if function == "categorical":
        best = tf.argmax(arguments["logits"], axis=-1)
        best = tf.broadcast_to(best[:, tf.newaxis], shape)
        return _shaped(tf.cast(best, arguments["dtype"]), dims)
    dtype = _dtype(arguments)
    if function in ("normal", "truncated_normal"):
        value: Any = arguments["mean"]
    elif function == "uniform":
        value = (_f64(arguments["minval"]) + _f64(arguments["maxval"])) / 2
    elif function == "randint":
        value = arguments["minval"]
    elif function == "gamma":
        value = arguments["alpha"]
    elif function == "beta":
        alpha, beta = _f64(arguments["alpha"]), _f64(arguments["beta"])
        value = alpha / (alpha + beta)
    else:
        counts = _f64(arguments["counts"])
        value = counts * _f64(arguments["probabilities"])
    return _shaped(tf.broadcast_to(tf.cast(value, dtype), shape), dims)


def from_words(
    function: str, arguments: dict[str, Any], words: tf.Tensor
) -> tf.Tensor:
    """Returns the result of a call, its numbers made of words.

    Args:
        function: One of `SUPPORTED`.
        arguments: What it is called with.
        words: uint32 tensor of the shape that `shape_of` returns.

    Returns:
        A tensor, of the shape and dtype that the call would have.
    """
    dims = shape_of(function, arguments)
    if function == "dropout":
        return _dropped(arguments, words)
    if function == "categorical":
        return _shaped(_categories(arguments, words), dims)
    dtype = tf.as_dtype(_dtype(arguments))
    if function == "randint":
        return _shaped(_integers(arguments, words, dtype), dims)
    if function == "uniform":
        low = tf.cast(arguments["minval"], dtype)
        width = tf.cast(arguments["maxval"], dtype) - low
        return _shaped(low + width * _below_one(words, dtype), dims)
    if function == "normal":
        standard = words_to_normal(words, tf.float64)
    else:
        tail = 0.5 * math.erfc(_TRUNCATED_AT / math.sqrt(2.0))
        inside = tail + words_to_uniform(words) * (1.0 - 2.0 * tail)
        standard = tf.math.ndtri(inside)
    numbers = _f64(arguments["mean"]) + _f64(arguments["stddev"]) * standard
    return _shaped(tf.cast(numbers, dtype), dims)


def _dropped(arguments: dict[str, Any], words: tf.Tensor) -> tf.Tensor:
    x, rate = arguments["inputs"], arguments["rate"]
    if isinstance(rate, (int, float)):
        threshold: Any = rate_to_threshold(float(rate))
        scale: Any = rate_to_scale(float(rate))
    else:
        wide = _f64(rate)
        threshold = rate_tensor_to_threshold(wide)
        scale = tf.math.divide_no_nan(tf.ones([], tf.float64), 1.0 - wide)
    keep = words >= as_scalar(threshold, tf.uint32)
    kept = x * as_scalar(scale, x.dtype)
    dropped = tf.where(keep, kept, tf.zeros([], x.dtype))
    dropped.set_shape(x.shape)
    return dropped


def _categories(arguments: dict[str, Any], words: tf.Tensor) -> tf.Tensor:
    logits = tf.cast(arguments["logits"], tf.float64)
    # [rows, 1, classes]: how much probability the classes up to each have.
    below = tf.cumsum(tf.nn.softmax(logits), axis=-1)[:, tf.newaxis, :-1]
    u = words_to_uniform(words)[:, :, tf.newaxis]
    chosen = tf.reduce_sum(tf.cast(u >= below, tf.int32), axis=-1)
    return tf.cast(chosen, arguments["dtype"])


def _integers(
    arguments: dict[str, Any], words: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
    low = tf.cast(arguments["minval"], tf.int64)
    width = tf.cast(arguments["maxval"], tf.int64) - low
    # A word has 32 bits, so a width of up to 2^31 does not overflow 63.
    share = tf.bitwise.right_shift(
        tf.cast(words, tf.int64) * width, tf.constant(32, tf.int64)
    )
    return tf.cast(low + share, dtype)


def _below_one(words: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Returns uniform numbers in [0, 1), also where 1 - 2^-33 rounds to 1."""
    bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
    largest = 1.0 - 2.0 ** -bits[dtype.name]
    return tf.cast(tf.minimum(words_to_uniform(words), largest), dtype)


def _dtype(arguments: dict[str, Any]) -> str:
    return str(
        keras.backend.standardize_dtype(
            arguments["dtype"] or keras.config.floatx()
        )
    )


def _f64(value: Any) -> tf.Tensor:
    if isinstance(value, (int, float)):
        return tf.constant(float(value), tf.float64)
    return tf.cast(value, tf.float64)


def _dims(shape: Any) -> list[Any]:
    """Returns a shape as ints where they are known, else scalar tensors."""
    if tf.is_tensor(shape):
        known = _known_dims(shape)
        return [
            shape[axis] if dim is None else dim
            for axis, dim in enumerate(known)
        ]
    return [dim if _static(dim) is None else _static(dim) for dim in shape]


def _known_dims(shape: tf.Tensor) -> list[int | None]:
    """Returns the dimensions that TensorFlow's shape inference knows."""
    known = tf.fill(shape, False).shape
    if known.rank is None:
        return [None] * int(shape.shape[0])
    return list(known.as_list())


def _static(dim: Any) -> int | None:
    if tf.is_tensor(dim):
        value = tf.get_static_value(dim)
        return None if value is None else int(value)
    return int(dim)


def _shaped(x: tf.Tensor, dims: Sequence[Any]) -> tf.Tensor:
    x.set_shape(static_shape(dims))
    return x
