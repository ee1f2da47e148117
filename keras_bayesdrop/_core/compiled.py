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
        inputs = self.function.inputs[: len(tensors)]
        specs = [tf.TensorSpec(each.shape, each.dtype) for each in inputs]
        inner = tf.function(
            lambda *args: self.function(*args),
            autograph=False,
            experimental_attributes={"_noinline": True},
        )
        return inner.get_concrete_function(*specs)(*tensors)


# Per thread, the calls that are watched.
_watched = threading.local()


@contextlib.contextmanager
def calls_apart() -> Iterator[list[Compiled]]:
    """Watches calls of programs, in this thread.

    Inside another function that is traced meanwhile, they stay functions of
    their own, for any shapes that they were traced for. So TensorFlow optimises
    each by itself, as it does where they are called one after another, and the
    same bits come out. (Inlined into a program of known shapes, with ops
    between them that nothing is fused across, two of the golden predictions
    had other bits.)

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
