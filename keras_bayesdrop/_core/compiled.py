# SPDX-License-Identifier: Apache-2.0
"""Calls a compiled function with as little Python as that takes.

A call of a concrete function of TensorFlow binds, casts and checks its
arguments, which for a small network takes longer than to run it. A program here
is called with tensors of the very types that it was traced for, so that there
is nothing to bind. It runs the same function, and gives the same bits.

This is the only use of TensorFlow's private API; `tests/upstream` checks it.
"""

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterator
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
        calls = getattr(_watched, "calls", None)
        if calls is not None:
            calls.append(self)
            if not tf.executing_eagerly():
                return self._apart(tensors)
        function = self.function
        # Those of a distributed variable depend on where the call is made.
        return function._call_flat([*tensors], function.captured_inputs)

    def _apart(self, tensors: Sequence[tf.Tensor]) -> Any:
        """Calls the function inside another one, of which it stays apart."""
        outputs = self.function(*map(_barrier, tensors))
        return tf.nest.map_structure(_barrier, outputs)


def _barrier(tensor: Any) -> Any:
    """Returns a tensor that nothing is fused across; no copy of it is made."""
    if tensor is None or tensor.shape.rank == 0:
        return tensor
    kind = tensor.dtype
    if not (kind.is_floating or kind.is_integer or kind.is_bool):
        return tensor
    return tf.raw_ops.Snapshot(input=tensor)


# Per thread, the calls that are watched.
_watched = threading.local()


@contextlib.contextmanager
def calls_apart() -> Iterator[list[Compiled]]:
    """Watches calls of programs, in this thread.

    Inside another function that is traced meanwhile, TensorFlow optimises
    each by itself, as it does where they are called one after another, so that
    the same bits come out. (As functions of their own, which are not inlined,
    they would do the same, and wait for other threads three times.)

    Yields:
        The programs that are called, in order.
    """
    before = getattr(_watched, "calls", None)
    _watched.calls = []
    try:
        yield _watched.calls
    finally:
        _watched.calls = before


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
