# SPDX-License-Identifier: Apache-2.0
"""The networks that the benchmarks time."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

WIDTHS = (784, 1200, 1200, 1200, 1200, 10)
RATES = (0.2, 0.5, 0.5, 0.5, 0.5)


def dense_network(
    widths: Sequence[int] = WIDTHS,
    rates: Sequence[float] = RATES,
    activation: str = "relu",
) -> keras.Model:
    """By default that of Baldi and Sadowski: 784-1200-1200-1200-1200-10."""
    keras.utils.set_random_seed(0)
    layers: list[Any] = [keras.Input((widths[0],))]
    for width, rate in zip(widths[1:-1], rates[:-1], strict=True):
        layers.append(keras.layers.Dropout(rate))
        layers.append(keras.layers.Dense(width, activation=activation))
    layers.append(keras.layers.Dropout(rates[-1]))
    layers.append(keras.layers.Dense(widths[-1], activation="softmax"))
    return keras.Sequential(layers)


def uci_network(features: int = 13) -> keras.Model:
    """Gal's network for the UCI sets: by default 13-50-1."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((features,)),
            keras.layers.Dropout(0.05),
            keras.layers.Dense(50, activation="relu"),
            keras.layers.Dropout(0.05),
            keras.layers.Dense(1),
        ]
    )


def tiled_program(model: keras.Model, samples: int) -> Callable[..., Any]:
    """What people write today: one compiled call on a repeated batch."""
    return tf.function(
        lambda rows: model(tf.repeat(rows, samples, axis=0), training=True)
    )


def matmul_program(model: keras.Model, samples: int) -> Callable[..., Any]:
    """Only the matmuls and relu of it: the ceiling of whoever masks."""
    kernels = [w.value for w in model.weights if w.name == "kernel"]

    def chain(rows: tf.Tensor) -> tf.Tensor:
        h = tf.repeat(rows, samples, axis=0)
        for kernel in kernels[:-1]:
            h = tf.nn.relu(h @ kernel)
        return h @ kernels[-1]

    return tf.function(chain)


def inputs(rows: int, width: int = WIDTHS[0]) -> np.ndarray:
    """Rows between 0 and 1."""
    return np.random.default_rng(0).random((rows, width), dtype=np.float32)
