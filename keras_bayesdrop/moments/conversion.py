# SPDX-License-Identifier: Apache-2.0
"""Converts arrays of any kind to tensors of one dtype."""

from typing import Any

import tensorflow as tf


def as_tensors(*arrays: Any) -> list[tf.Tensor]:
    """Returns tensors in float64 if any array is float64, else in float32.

    Python numbers take the dtype of the arrays, without rounding to float32
    first.
    """
    wide = any(
        hasattr(array, "dtype") and tf.as_dtype(array.dtype) == tf.float64
        for array in arrays
    )
    dtype = tf.float64 if wide else tf.float32
    return [as_tensor(array, dtype) for array in arrays]


def as_tensor(array: Any, dtype: Any) -> tf.Tensor:
    """Returns an array or a number as a tensor of a dtype."""
    if hasattr(array, "dtype"):
        return tf.cast(array, dtype)
    return tf.convert_to_tensor(array, dtype)
