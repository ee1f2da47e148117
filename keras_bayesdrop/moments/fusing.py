# SPDX-License-Identifier: Apache-2.0
"""Work on every entry alone, as one loop over memory where it is large.

TensorFlow runs through memory once for each operation, and a rule for an
activation has some twenty. XLA makes one loop of them, but compiles it anew for
every shape: worth it for feature maps, and not for small ones.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

# Entries from which on a loop is compiled. With 9 million the rules for relu
# and for max pooling take half the time so, on two cores.
_LARGE = 2_000_000


def fused(
    steps: Sequence[Callable[..., Any]], *tensors: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Calls functions one after the other.

    Args:
        steps: Functions of operations on entries alone, or near to that. Each
            maps what the one before returned to several tensors of one shape.
        *tensors: Arguments of the first, feature maps or vectors of units.

    Returns:
        What the last returns.
    """

    def plain(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        for step in steps:
            tensors = tuple(step(*tensors))
        return tensors

    def compile_step(index: int, *tensors: tf.Tensor) -> tf.Tensor:
        # XLA makes a loop for each output, and of what they share loops of
        # their own, through memory. So there is one output.
        return tf.stack(steps[index](*tensors))

    def compiled(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        # Compiled one by one: together they would run again for every place
        # of the next that takes them.
        run = tf.function(compile_step, autograph=False, jit_compile=True)
        for index in range(len(steps)):
            tensors = tuple(tf.unstack(run(index, *tensors)))
        return tensors

    if tensors[0].shape.rank < 3:
        return plain(*tensors)
    made = tf.cond(
        tf.size(tensors[0]) >= _LARGE,
        lambda: compiled(*tensors),
        lambda: plain(*tensors),
    )
    return tuple(made)
