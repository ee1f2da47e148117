# SPDX-License-Identifier: Apache-2.0
"""Calls a compiled function with as little Python as that takes.

A call of a concrete function of TensorFlow binds, casts and checks its
arguments, which for a small network takes longer than to run it. A program here
is called with tensors of the very types that it was traced for, so that there
is nothing to bind. It runs the same function, and gives the same bits.

Two ways that look faster give other last bits for some networks, because
TensorFlow then optimises the function otherwise: as a part of a larger program,
inlined or not; and by `StatefulPartitionedCall`, which runs it on the caller's
thread (and keeps what it made until the process ends).

This is the only use of TensorFlow's private API; `tests/upstream` checks it.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Compiled:
    """A traced function of tensors.

    Args:
        function: The concrete function.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *tensors: tf.Tensor) -> Any:
        """Runs the function.

        Args:
            *tensors: Of the types that it was traced for.

        Returns:
            The structure that the function returns.
        """
        function = self.function
        # Those of a distributed variable depend on where the call is made.
        return function._call_flat([*tensors], function.captured_inputs)


def compiled(
    function: Callable[..., Any],
    specs: Sequence[tf.TensorSpec],
) -> Compiled:
    """Traces a function of tensors.

    Args:
        function: The function.
        specs: Shape and dtype of every argument.
    """
    traced = tf.function(function, autograph=False)
    return Compiled(traced.get_concrete_function(*specs))
