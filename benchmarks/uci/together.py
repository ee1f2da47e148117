# SPDX-License-Identifier: Apache-2.0
"""Trains a network for each of several splits, in one compiled program.

Members have rows, orders, noise and initial weights of their own, and the loss
of all is the sum, so that no member's gradient sees another. The noise of a
member is made from its own keys: what becomes of it does not depend on which
others are there.
"""

import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from functools import partial
from os import sched_getaffinity
from threading import Event
from typing import Any
from typing import Protocol

import numpy as np
import tensorflow as tf

from uci.adam import adam
from uci.data import Array
from uci.masks import mask_words

# Members of a program: more are not faster, and their tensors leave the cache.
MEMBERS = 2
_STEPS_AT_ONCE = 10_000  # of a call, after which an interrupt is seen
_PADDING = -1  # stands for no row, at the end of a short batch

Words = Callable[[Sequence[int], int], tf.Tensor]
Weights = list[tf.Tensor]


class MemberLoss(Protocol):
    """A loss that is known by its value: equal ones share a program."""

    def __hash__(self) -> int:
        """Returns what equal losses have in common."""

    def noise(self, words: Words, rows: int) -> list[tf.Tensor]:
        """Makes the noise of a step.

        Args:
            words: Takes a shape and the number of a noise site, and returns
                uint32 words [members, *shape].
            rows: Rows of a batch.
        """

    def __call__(
        self,
        weights: Weights,
        x: tf.Tensor,
        y: tf.Tensor,
        row_weights: tf.Tensor,
        precisions: tf.Tensor,
        noise: list[tf.Tensor],
        num_train_examples: int,
    ) -> tf.Tensor:
        """Returns the loss of each member.

        Args:
            weights: [members, ...] each.
            x: [members, rows, features].
            y: [members, rows, 1].
            row_weights: [members, rows], which sum to one.
            precisions: [members], noise precision in units of `y`.
            noise: As `noise` makes it.
            num_train_examples: Rows of a member, of all batches.

        Returns:
            [members].
        """


@dataclass(frozen=True)
class Schedule:
    """How long members are trained, and in which steps.

    Attributes:
        epochs: Number of epochs.
        batch_size: Rows of a step.
        learning_rate: That of Adam.
        shuffle: Whether each epoch has a new order of the rows.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    shuffle: bool = True


@dataclass(frozen=True)
class Member:
    """What one network is trained on.

    Attributes:
        initial: Initial weights.
        x: float32 [rows, features].
        y: float32 [rows, 1].
        precision: Noise precision in units of `y`.
        seed: Of orders and noise.
    """

    initial: list[Array]
    x: Array
    y: Array
    precision: float
    seed: np.random.SeedSequence


def at_once() -> int:
    """Returns how many members keep this process busy."""
    return MEMBERS * len(sched_getaffinity(0))


def train(
    loss: MemberLoss, schedule: Schedule, members: Sequence[Member]
) -> list[list[Array]]:
    """Trains members, on all cores.

    Returns:
        Trained weights of each member, in the order of the initial ones.
    """
    by_rows: dict[int, list[int]] = {}
    for number, member in enumerate(members):
        by_rows.setdefault(len(member.y), []).append(number)
    pieces = [
        numbers[first : first + MEMBERS]
        for numbers in by_rows.values()
        for first in range(0, len(numbers), MEMBERS)
    ]
    stop = Event()
    trained: dict[int, list[Array]] = {}
    with ThreadPoolExecutor(len(sched_getaffinity(0))) as threads:
        try:
            stacks = threads.map(
                lambda piece: _train_stack(
                    loss, schedule, [members[number] for number in piece], stop
                ),
                pieces,
            )
            for piece, stack in zip(pieces, stacks, strict=True):
                trained.update(zip(piece, stack, strict=True))
        except BaseException:
            stop.set()
            raise
    return [trained[number] for number in range(len(members))]


def _train_stack(
    loss: MemberLoss,
    schedule: Schedule,
    members: Sequence[Member],
    stop: Event,
) -> list[list[Array]]:
    """Trains members with the same number of rows, until `stop` is set."""
    generators = [np.random.default_rng(member.seed) for member in members]
    keys = tf.constant(
        np.stack(
            [g.integers(2**32, size=2, dtype=np.uint32) for g in generators]
        )
    )
    x = tf.constant(np.stack([member.x for member in members]))
    y = tf.constant(np.stack([member.y for member in members]))
    precisions = tf.constant([m.precision for m in members], tf.float32)
    initial = zip(*(member.initial for member in members), strict=True)
    weights = [tf.constant(np.stack(values), tf.float32) for values in initial]
    zeros = [tf.zeros_like(value) for value in weights]
    rate = tf.constant(schedule.learning_rate)
    state: Any = (tf.constant(0), weights, zeros, zeros)
    run = _program(loss)
    for orders, steps in _orders(schedule, x.shape[1], generators):
        if stop.is_set():
            break
        state = run(state, orders, steps, x, y, precisions, keys, rate)
    columns = [value.numpy() for value in state[1]]
    return [
        [value[number] for value in columns] for number in range(len(members))
    ]


def _orders(
    schedule: Schedule, rows: int, generators: Sequence[np.random.Generator]
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Yields the rows of batches, all of one shape, and how many to take.

    Yields:
        int32 [batches, members, batch size], and a scalar.
    """
    size = schedule.batch_size
    per_epoch = math.ceil(rows / size)
    most = min(max(1, _STEPS_AT_ONCE // per_epoch), schedule.epochs)
    orders = np.full(
        (len(generators), most, per_epoch * size), _PADDING, np.int32
    )
    orders[..., :rows] = np.arange(rows)
    for first in range(0, schedule.epochs, most):
        if schedule.shuffle:
            for order, generator in zip(orders, generators, strict=True):
                order[:, :rows] = generator.permuted(order[:, :rows], axis=1)
        epochs = min(most, schedule.epochs - first)
        batches = orders.reshape(len(generators), -1, size).swapaxes(0, 1)
        yield tf.constant(batches), tf.constant(epochs * per_epoch)


@cache
def _program(loss: MemberLoss) -> Any:
    """Returns the compiled training of a loss."""
    return tf.function(partial(_run, loss), jit_compile=True, autograph=False)


def _run(
    loss: MemberLoss,
    state: Any,
    batches: tf.Tensor,
    count: tf.Tensor,
    x: tf.Tensor,
    y: tf.Tensor,
    precisions: tf.Tensor,
    keys: tf.Tensor,
    learning_rate: tf.Tensor,
) -> Any:
    """Takes a training step for each of the first `count` batches."""

    def noise(step: tf.Tensor) -> list[tf.Tensor]:
        return loss.noise(
            lambda shape, site: mask_words(shape, keys, step, site),
            batches.shape[2],
        )

    def one(batch: tf.Tensor, drawn: list[tf.Tensor], state: Any) -> Any:
        numbers = batches[batch]  # [members, rows]
        present = tf.cast(numbers >= 0, tf.float32)
        rows = tf.maximum(numbers, 0)
        step, weights, means, squares = state
        with tf.GradientTape() as tape:
            tape.watch(weights)
            losses = loss(
                weights,
                tf.gather(x, rows, batch_dims=1),
                tf.gather(y, rows, batch_dims=1),
                present / tf.reduce_sum(present, axis=1, keepdims=True),
                precisions,
                drawn,
                x.shape[1],
            )
        gradients = tape.gradient(losses, weights)
        step += 1
        return (
            batch + 1,
            # For the next step: noise that a step makes for itself XLA would
            # make again in its backward pass, for half of all the time.
            noise(step),
            (
                step,
                *adam(weights, means, squares, gradients, step, learning_rate),
            ),
        )

    return tf.while_loop(
        lambda batch, *_: batch < count,
        one,
        (tf.constant(0), noise(state[0]), state),
    )[2]
