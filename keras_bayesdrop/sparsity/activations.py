# SPDX-License-Identifier: Apache-2.0
"""Activations that treat every channel on its own."""

from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array

# By the names that Keras gives them. Older versions do not have all of them.
# Not among them: `softmax`, `log_softmax`, `sparsemax` and `glu`.
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
    """Returns whether a function is an elementwise activation of Keras."""
    return activation is None or any(activation is each for each in _FUNCTIONS)


def apply(activation: Any, values: Float64Array) -> Float64Array:
    """Returns `activation(values)`, computed in float32 as models do."""
    if activation is None:
        return values
    tensor = keras.ops.convert_to_tensor(values.astype(np.float32))
    made = keras.ops.convert_to_numpy(activation(tensor))
    return np.asarray(made, np.float64)
