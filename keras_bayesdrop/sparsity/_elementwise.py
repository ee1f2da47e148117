# SPDX-License-Identifier: Apache-2.0
"""Activations that treat each channel separately."""

from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array

# Names in `keras.activations`; older versions lack some. `softmax`,
# `log_softmax`, `sparsemax` and `glu` mix channels.
_NAMES = (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "tanh",
    "tanh_shrink",
)
_FUNCTIONS = tuple(
    getattr(keras.activations, name)
    for name in _NAMES
    if hasattr(keras.activations, name)
)


def is_elementwise(activation: Any) -> bool:
    """Returns True for elementwise activations of Keras, and for `None`."""
    return activation is None or any(activation is each for each in _FUNCTIONS)


def apply(activation: Any, values: Float64Array) -> Float64Array:
    """Returns `activation(values)`, computed in float32 as models do."""
    if activation is None:
        return values
    tensor = keras.ops.convert_to_tensor(values.astype(np.float32))
    array = keras.ops.convert_to_numpy(activation(tensor))
    return np.asarray(array, np.float64)
