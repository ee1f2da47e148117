# SPDX-License-Identifier: Apache-2.0
"""Keeps what is traced of models: compiled programs, shapes, draws.

One thread traces at a time, whatever it traces: a trace calls Keras layers,
which threads may share. What is kept already is handed out without waiting, and
programs run side by side. A cache does not keep a model alive.
"""

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph import fingerprint

Value = TypeVar("Value")

# Held while layers are traced. A layer that is traced, and a callback, may
# predict in turn in the same thread.
_tracing = threading.RLock()


class Cache:
    """Values of objects, of which the least recently used are dropped.

    Args:
        per_owner: How many values to keep of one object.
        total: How many to keep of all objects.
    """

    def __init__(self, per_owner: int, total: int) -> None:
        self.per_owner = per_owner
        self.total = total
        self._values: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = (
            weakref.WeakKeyDictionary()
        )
        self._made: weakref.WeakKeyDictionary[Any, int] = (
            weakref.WeakKeyDictionary()
        )
        self._clock = itertools.count()
        self._lock = threading.RLock()

    def get(self, owner: Any, key: Any, make: Callable[[], Value]) -> Value:
        """Returns a value, made now if it is not kept.

        Args:
            owner: Model or layer. The value must not refer to it.
            key: Tells the owner's values apart.
            make: Traces layers of the owner. No other thread traces meanwhile.

        Returns:
            What `make` returned, now or before.
        """
        known = self.find(owner, key)
        if known is not None:
            return known[0]  # type: ignore[no-any-return]
        with _tracing:
            known = self.find(owner, key)  # another thread was first
            if known is not None:
                return known[0]  # type: ignore[no-any-return]
            with fingerprint.calls_watched(owner):
                value = make()
            self.keep(owner, key, value)
        return value

    def count(self, owner: Any = None) -> int:
        """Returns how many values are kept, of an object or of all."""
        with self._lock:
            if owner is not None:
                return len(self._values.get(owner, ()))
            return sum(len(values) for values in self._values.values())

    def made(self, owner: Any) -> int:
        """Returns how many values of an object were made so far."""
        with self._lock:
            return self._made.get(owner, 0)

    def clear(self, owner: Any = None) -> None:
        """Drops the values of an object, or of all."""
        with self._lock:
            if owner is None:
                self._values.clear()
            else:
                self._values.pop(owner, None)

    def find(self, owner: Any, key: Any) -> tuple[Any] | None:
        """Returns a value in a tuple, or `None` if it is not kept."""
        with self._lock:
            values = self._values.get(owner, {})
            if key not in values:
                return None
            value, _ = values.pop(key)
            values[key] = (value, next(self._clock))  # the last used goes last
            return (value,)

    def keep(self, owner: Any, key: Any, value: Any) -> None:
        """Keeps a value. It must not refer to its owner."""
        with self._lock:
            values = self._values.setdefault(owner, {})
            values[key] = (value, next(self._clock))
            self._made[owner] = self._made.get(owner, 0) + 1
            if len(values) > self.per_owner:
                del values[next(iter(values))]
            if self.count() > self.total:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = min(
            (values for values in list(self._values.values()) if values),
            key=lambda values: next(iter(values.values()))[1],
        )
        del oldest[next(iter(oldest))]


# A prediction takes two programs, or a few more if its last batch is smaller.
# One of a small network takes 0.3 MB.
programs = Cache(per_owner=32, total=256)
# Shapes of values, and draws seen in layers: a few kB each.
facts = Cache(per_owner=32, total=4096)


def say_once(model: Any, what: str) -> bool:
    """Returns whether something is to be said of a model the first time."""
    key = ("said", what)
    first = facts.find(model, key) is None
    facts.keep(model, key, True)
    return first


def found_out(
    model: Any, key: Any, find_out: Callable[[], bool | None]
) -> bool | None:
    """Returns what is true of a model, and computes it at most once.

    An answer of `None` is not kept: other inputs may tell more.
    """
    known = facts.find(model, key)
    if known is not None:
        return bool(known[0])
    answer = find_out()
    if answer is not None:
        facts.keep(model, key, answer)
    return answer


def clear(model: Any = None) -> None:
    """Forgets everything that was traced of a model, or of all."""
    fingerprint.forget(model)
    if model is None:
        programs.clear()
        facts.clear()
        return
    for layer in private_keras.all_layers(model):
        programs.clear(layer)
        facts.clear(layer)
