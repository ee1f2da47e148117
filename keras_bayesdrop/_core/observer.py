# SPDX-License-Identifier: Apache-2.0
"""Intercepts Keras' random functions and loops, for one thread at a time.

Keras looks up its random functions in the module `backend.random` at every
call, however a layer spells the call (by name, by attribute, through
`functools.partial` or a helper object). Each function is therefore replaced
there once, by a function that checks whether the thread has an observer.
Without an observer it calls the original.
"""

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import Protocol

from keras_bayesdrop._core import private_keras

# Every function of `keras.random` that draws.
FUNCTIONS = (
    "beta",
    "binomial",
    "categorical",
    "dropout",
    "gamma",
    "normal",
    "randint",
    "shuffle",
    "truncated_normal",
    "uniform",
)


class Observer(Protocol):
    """Takes over the random functions of a thread, and its loops."""

    def draw(self, function: str, arguments: dict[str, Any]) -> Any:
        """Returns the result of a random function."""

    def loop(self, run: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Returns the result of Keras' loop over time."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.observers: list[Observer] = []


_local = _Local()
_lock = threading.Lock()
_MARK = "_keras_bayesdrop_observed"


def current_observer() -> Observer | None:
    """Returns the observer of this thread, if it has one."""
    return _local.observers[-1] if _local.observers else None


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Hands every draw of this thread to `observer` while open."""
    _install()
    _local.observers.append(observer)
    try:
        yield
    finally:
        _local.observers.pop()


def _install() -> None:
    """Replaces the functions, unless they are replaced already."""
    with _lock:
        random = private_keras.random_backend()
        for name in FUNCTIONS:
            _replace(
                random,
                name,
                lambda observer, original, arguments, name=name: observer.draw(
                    name, arguments
                ),
            )
        _replace(
            private_keras.loop_backend(),
            "rnn",
            lambda observer, original, arguments: observer.loop(
                original, arguments
            ),
        )


def _replace(module: Any, name: str, handle: Callable[..., Any]) -> None:
    original = getattr(module, name)
    if hasattr(original, _MARK):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def ask(*args: Any, **kwargs: Any) -> Any:
        observer = current_observer()
        if observer is None:
            return original(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return handle(observer, original, dict(bound.arguments))

    setattr(ask, _MARK, True)
    setattr(module, name, ask)
