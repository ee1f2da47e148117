# SPDX-License-Identifier: Apache-2.0
"""Trains many small networks at once, in one compiled program.

The members differ in rate, weight decay and initial weights, and share the
rows and their order. Each is the published network, dropout before every
weight layer, trained as `fit` would train it: a new order of the rows every
epoch, a last batch that may be short, Adam, and the loss

    loss[m] = mean over the batch of (y - f[m](x))^2
              + decay[m] * sum over the kernels of W[m]^2

The loss of all is the sum, so that no member's gradient sees another.
"""

import math
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.random.philox import rate_to_threshold
from uci.adam import adam
from uci.data import Array
from uci.masks import mask_words

_NUMBERS_AT_ONCE = 2_000_000  # row numbers handed to one call: 8 MB
_PADDING = -1  # stands for no row, at the end of a short batch


@dataclass(frozen=True)
class Training:
    """How members are trained.

    Attributes:
        widths: Units of the inputs, the hidden layers, and the output.
        rates: Dropout rate of each member.
        decays: Weight decay of each member.
        epochs: Number of epochs.
        batch_size: Rows of a step.
        learning_rate: That of Adam.
        shuffle: Whether each epoch has a new order of the rows.
    """

    widths: tuple[int, ...]
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    epochs: int
    batch_size: int
    learning_rate: float
    shuffle: bool = True


def train(
    training: Training,
    x: Array,
    y: Array,
    seed: np.random.SeedSequence,
    initial: Sequence[Array] | None = None,
) -> list[list[Array]]:
    """Trains members on the same rows.

    Args:
        training: How.
        x: float32 [rows, features].
        y: float32 [rows, 1].
        seed: Of initial weights, orders and masks.
        initial: Initial weights, if not to be drawn.

    Returns:
        For each member what `set_weights` of such a Keras model takes:
        kernel and bias of each layer in turn.
    """
    generator = np.random.default_rng(seed)
    keys = tf.constant(generator.integers(2**32, size=2, dtype=np.uint32))
    weights = [
        tf.constant(value, tf.float32)
        for value in initial or initial_weights(training, generator)
    ]
    zeros = [tf.zeros_like(value) for value in weights]
    state: Any = (tf.constant(0), weights, zeros, zeros)
    members = {
        "thresholds": tf.constant(
            [rate_to_threshold(rate) for rate in training.rates], tf.uint32
        ),
        "scales": tf.constant([1 / (1 - rate) for rate in training.rates]),
        "decays": tf.constant(training.decays),
    }
    rate = tf.constant(training.learning_rate)
    for orders, steps in _orders(training, len(x), generator):
        state = _run(state, orders, steps, x, y, members, keys, rate)
    columns = [value.numpy() for value in state[1]]
    return [
        [value[member] for value in columns]
        for member in range(len(training.rates))
    ]


def initial_weights(
    training: Training, generator: np.random.Generator
) -> list[Array]:
    """Draws weights as Keras draws those of `Dense` by default.

    Returns:
        [members, inputs, units] and [members, units] for each layer in turn.
    """
    members = len(training.rates)
    weights: list[Array] = []
    for inputs, units in zip(
        training.widths, training.widths[1:], strict=False
    ):
        bound = math.sqrt(6 / (inputs + units))
        shape = (members, inputs, units)
        weights.append(generator.uniform(-bound, bound, shape))
        weights.append(np.zeros((members, units)))
    return weights


def _orders(
    training: Training, rows: int, generator: np.random.Generator
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Yields the rows of batches, all of one shape, and how many to take.

    Yields:
        int32 [batches, batch size], and a scalar.
    """
    size = training.batch_size
    per_epoch = math.ceil(rows / size)
    most = max(1, _NUMBERS_AT_ONCE // (per_epoch * size))
    most = min(most, training.epochs)
    orders = np.full((most, per_epoch * size), _PADDING, np.int32)
    orders[:, :rows] = np.arange(rows)
    for first in range(0, training.epochs, most):
        if training.shuffle:
            orders[:, :rows] = generator.permuted(orders[:, :rows], axis=1)
        epochs = min(most, training.epochs - first)
        yield (
            tf.constant(orders.reshape(-1, size)),
            tf.constant(epochs * per_epoch),
        )


@tf.function(jit_compile=True)
def _run(
    state: Any,
    batches: tf.Tensor,
    count: tf.Tensor,
    x: tf.Tensor,
    y: tf.Tensor,
    members: dict[str, tf.Tensor],
    keys: tf.Tensor,
    learning_rate: tf.Tensor,
) -> Any:
    """Takes a training step for each of the first `count` batches."""

    def one(batch: tf.Tensor, state: Any) -> Any:
        numbers = batches[batch]
        present = tf.cast(numbers >= 0, tf.float32)
        rows = tf.maximum(numbers, 0)
        step, weights, means, squares = state
        gradients = _gradients(
            weights,
            tf.gather(x, rows),
            tf.gather(y, rows),
            present / tf.reduce_sum(present),
            members,
            lambda shape, site: mask_words(shape, keys, step, site),
        )
        step += 1
        return batch + 1, (
            step,
            *adam(weights, means, squares, gradients, step, learning_rate),
        )

    return tf.while_loop(
        lambda batch, _: batch < count,
        one,
        (tf.constant(0), state),
    )[1]


def _gradients(
    weights: list[tf.Tensor],
    x: tf.Tensor,
    y: tf.Tensor,
    row_weights: tf.Tensor,
    members: dict[str, tf.Tensor],
    words: Any,
) -> list[tf.Tensor]:
    """Returns the gradient of the loss of all members."""
    count = members["decays"].shape[0]
    last = len(weights) // 2 - 1
    with tf.GradientTape() as tape:
        tape.watch(weights)
        hidden = tf.broadcast_to(x, [count, *x.shape])  # [members, rows, units]
        for layer in range(last + 1):
            kernel, bias = weights[2 * layer : 2 * layer + 2]
            keep = words(hidden.shape, layer) >= _each(members["thresholds"])
            hidden = tf.where(keep, hidden * _each(members["scales"]), 0.0)
            hidden = hidden @ kernel + bias[:, None]
            if layer < last:
                hidden = tf.nn.relu(hidden)
        errors = tf.reduce_sum(tf.square(hidden - y), axis=2)
        loss = tf.reduce_sum(errors * row_weights)
        for kernel in weights[::2]:
            sums = tf.reduce_sum(tf.square(kernel), axis=(1, 2))
            loss += tf.reduce_sum(members["decays"] * sums)
    gradients: list[tf.Tensor] = tape.gradient(loss, weights)
    return gradients


def _each(values: tf.Tensor) -> tf.Tensor:
    """Returns one value per member, ready for [members, rows, units]."""
    return values[:, None, None]
