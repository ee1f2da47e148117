# SPDX-License-Identifier: Apache-2.0
"""Dtypes, and exponentials and ratios that do not overflow."""

from typing import Any

import keras
import tensorflow as tf

# Logarithms of standard deviations are clipped to these bounds. Beyond them
# the standard deviation, or its inverse, is not finite in the dtype.
_LARGEST_LOG_STDDEV = {"float32": 87.0, "float64": 700.0}
# The squares of larger ratios overflow.
LARGEST_RATIO = {"float32": 1e18, "float64": 1e150}


def as_float(values: Any) -> Any:
    """Returns a tensor of float64 if `values` has that dtype, else float32."""
    tensor = keras.ops.convert_to_tensor(values)
    dtype = keras.backend.result_type(tensor.dtype, "float32")
    return keras.ops.cast(tensor, dtype)


def widened(*tensors: Any) -> list[Any]:
    """Returns the tensors in one shape and dtype.

    The dtype is float32, or float64 if one of the tensors has it. The shape is
    the one to which all tensors broadcast: the custom gradients rely on it.
    """
    tensors = tuple(keras.ops.convert_to_tensor(each) for each in tensors)
    dtype = keras.backend.result_type(*map(dtype_of, tensors), "float32")
    wide = [keras.ops.cast(each, dtype) for each in tensors]
    if len({tuple(each.shape) for each in wide}) > 1:
        zeros = sum(keras.ops.zeros_like(each) for each in wide)
        wide = [each + zeros for each in wide]
    return wide


def exp_log_stddev(log_stddev: Any) -> Any:
    """Returns `exp(log_stddev)`, never zero and never infinite."""
    largest = _LARGEST_LOG_STDDEV[dtype_of(log_stddev)]
    return keras.ops.exp(keras.ops.clip(log_stddev, -largest, largest))


@tf.custom_gradient
def ratio_to_stddev(mean: Any, log_variance: Any) -> Any:
    """Returns mean / sigma, without squares that could overflow.

    The gradient takes no square either: the derivative by `log_variance` is
    minus half the ratio.
    """
    largest = LARGEST_RATIO[dtype_of(mean)]

    def gradient(upstream: Any) -> tuple[Any, Any]:
        ratio = ratio_to_stddev(mean, log_variance)
        inverse = keras.ops.where(
            keras.ops.abs(ratio) < largest,
            exp_log_stddev(-0.5 * log_variance),
            0.0,
        )
        return upstream * inverse, -0.5 * upstream * ratio

    ratio = mean * exp_log_stddev(-0.5 * log_variance)
    return keras.ops.clip(ratio, -largest, largest), gradient


def dtype_of(tensor: Any) -> str:
    """Returns the name of a tensor's dtype."""
    return str(keras.backend.standardize_dtype(tensor.dtype))
