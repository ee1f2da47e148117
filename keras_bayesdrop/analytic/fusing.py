# SPDX-License-Identifier: Apache-2.0
"""Work on every entry alone, as one loop over memory where it is large.

TensorFlow runs through memory once for each operation, and a rule for an
activation has some twenty. XLA makes one loop of them, but compiles it anew for
every shape: worth it for feature maps, and not for small ones.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Entries from which on a loop is compiled. With 9 million the rules for relu
# and for max pooling take half the time so, on two cores.
_LARGE = 2_000_000


def fused(
    function: Callable[..., Any], *tensors: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Calls a function that maps tensors of a shape to several of another.

    Args:
        function: Made of operations on entries alone, or near to that.
        *tensors: Its arguments, feature maps or vectors of units.

    Returns:
        What it returns.
    """
    if tensors[0].shape.rank < 3:
        return tuple(function(*tensors))
    compiled = tf.function(function, autograph=False, jit_compile=True)
    made = tf.cond(
        tf.size(tensors[0]) >= _LARGE,
        lambda: tuple(compiled(*tensors)),
        lambda: tuple(function(*tensors)),
    )
    return tuple(made)
