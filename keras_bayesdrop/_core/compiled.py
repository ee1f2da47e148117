# SPDX-License-Identifier: Apache-2.0
"""Calls a compiled function with as little as that takes.

A call of a concrete function of TensorFlow binds, casts and checks its
arguments, which for a small network takes longer than to run it. A program here
is called with tensors of the very types that it was traced for, so that there
is nothing to bind. It runs the same function, and gives the same bits.

    usual call      runs the function on another thread
    direct call     runs the op that calls a function, on this thread

The runtime keeps what it made for a direct call until the process ends, about
0.1 MB. So only some programs, of predictors, are called directly.

This is the only use of TensorFlow's private API; `tests/upstream` checks it.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

# Programs of a process that are called directly.
MOST_DIRECT = 100

_number_of_direct = 0
_lock = threading.Lock()
_calls = threading.local()


class Compiled:
    """A traced function of tensors.

    Args:
        function: The concrete function.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self._is_direct: bool | None = None
        self._types = [output.dtype for output in function.outputs]
        self._fill = _filler(function.structured_outputs)

    def __call__(self, *tensors: tf.Tensor) -> Any:
        """Runs the function.

        Args:
            *tensors: Of the types that it was traced for.

        Returns:
            The structure that the function returns.
        """
        function = self.function
        # Those of a distributed variable depend on where the call is made.
        captured = function.captured_inputs
        if getattr(_calls, "direct", False) and self._may_be_direct():
            outputs = tf.raw_ops.StatefulPartitionedCall(
                args=[*tensors, *captured], Tout=self._types, f=function
            )
            return self._fill(outputs)
        return function._call_flat([*tensors], captured)

    def _may_be_direct(self) -> bool:
        """Returns whether this program is one of those called directly."""
        global _number_of_direct
        if self._is_direct is None:
            with _lock:
                self._is_direct = (
                    _number_of_direct < MOST_DIRECT and _has_one_device()
                )
                _number_of_direct += self._is_direct
        return self._is_direct and tf.executing_eagerly()


@contextlib.contextmanager
def direct_calls() -> Iterator[None]:
    """Calls programs directly, in this thread, as far as that may be."""
    before = getattr(_calls, "direct", False)
    _calls.direct = True
    try:
        yield
    finally:
        _calls.direct = before


def compiled(
    function: Callable[..., Any], specs: Sequence[tf.TensorSpec]
) -> Compiled:
    """Traces a function of tensors.

    Args:
        function: The function.
        specs: Shape and dtype of every argument.
    """
    traced = tf.function(function, autograph=False)
    return Compiled(traced.get_concrete_function(*specs))


@functools.cache
def _has_one_device() -> bool:
    """Returns whether all tensors are where the op of a direct call runs."""
    return len(tf.config.list_logical_devices()) == 1


def _filler(structure: Any) -> Callable[[Sequence[tf.Tensor]], Any]:
    """Returns what puts the outputs of a function into its structure.

    Args:
        structure: Of tensors, with `None` for what is none.
    """
    leaves = tf.nest.flatten(structure)
    places = [n for n, leaf in enumerate(leaves) if leaf is not None]
    flat = isinstance(structure, list) and len(structure) == len(leaves)

    def fill(outputs: Sequence[tf.Tensor]) -> Any:
        values: list[Any] = [None] * len(leaves)
        for place, output in zip(places, outputs, strict=True):
            values[place] = output
        return values if flat else tf.nest.pack_sequence_as(structure, values)

    return fill
