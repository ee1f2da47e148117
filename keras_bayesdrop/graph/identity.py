# SPDX-License-Identifier: Apache-2.0
"""Numbers objects: each gets a number that no other object ever has.

`id` is reused once an object is gone, and many objects define `==` as
something else (a Keras variable compares its values). So an object gets a
number when it is first asked for. Only weak references are kept.
"""

import itertools
import threading
import weakref
from typing import Any

_numbers: dict[int, tuple[weakref.ref[Any], int]] = {}  # by `id`
_next = itertools.count()
_lock = threading.RLock()


class Held:
    """Stands for an object that cannot be referenced weakly, by holding it.

    Args:
        value: The object.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Returns whether both hold the same object."""
        return isinstance(other, Held) and other.value is self.value

    def __hash__(self) -> int:
        """Equal for equal ones."""
        return id(self.value)


def identity(value: Any) -> int | Held:
    """Returns what stands for this very object as long as it lives.

    Args:
        value: Any object.

    Returns:
        A number that no other object has or will have. For an object without
        weak references (one with `__slots__`), the object in a box.
    """
    key = id(value)
    known = _numbers.get(key)
    if known is not None and known[0]() is value:
        return known[1]

    def forget(gone: weakref.ref[Any]) -> None:
        with _lock:
            known = _numbers.get(key)
            if known is not None and known[0] is gone:
                del _numbers[key]

    try:
        reference = weakref.ref(value, forget)
    except TypeError:
        return Held(value)
    with _lock:
        known = _numbers.get(key)
        if known is None or known[0]() is not value:
            known = _numbers[key] = (reference, next(_next))
        return known[1]
