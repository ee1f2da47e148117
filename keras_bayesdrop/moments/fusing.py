# SPDX-License-Identifier: Apache-2.0
"""Fuses elementwise operations on large tensors into one loop, by XLA.

TensorFlow runs through memory once for each operation, and the rule of an
activation has about twenty. XLA fuses them into one loop but compiles it for
every shape, which pays off for large feature maps only.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

# Smallest number of entries that is compiled. With 9 million entries, compiling
# halves the time of the rules for relu and max pooling, on two cores.
_LARGE = 2_000_000


def fused(
    steps: Sequence[Callable[..., Any]], *tensors: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Calls functions one after the other.

    Args:
        steps: Functions of elementwise operations, or nearly so. Each maps the
            results of the one before to several tensors of one shape.
        *tensors: Arguments of the first function: feature maps or vectors of
            units.

    Returns:
        Results of the last function.
    """

    def plain(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        for step in steps:
            tensors = tuple(step(*tensors))
        return tensors

    def compile_step(index: int, *tensors: tf.Tensor) -> tf.Tensor:
        # With several outputs XLA writes a loop for each, and further loops for
        # what they share. Stacking leaves one output and one loop.
        return tf.stack(steps[index](*tensors))

    def compiled(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        # Compiled one by one: compiled together, a step would run again for
        # each use of its result in the next step.
        run = tf.function(compile_step, autograph=False, jit_compile=True)
        for index in range(len(steps)):
            tensors = tuple(tf.unstack(run(index, *tensors)))
        return tensors

    if tensors[0].shape.rank < 3:
        return plain(*tensors)
    return tuple(
        tf.cond(
            tf.size(tensors[0]) >= _LARGE,
            lambda: compiled(*tensors),
            lambda: plain(*tensors),
        )
    )
