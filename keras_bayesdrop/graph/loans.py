# SPDX-License-Identifier: Apache-2.0
"""Lends an object another method, seen by one thread only.

While a method is lent, the object holds a dispatcher in its place: it hands
the borrowing thread what that thread was lent, and every other thread the
original. Nested loans of a thread hide each other, newest first.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

# Loans under way: per method, what each thread has been lent, newest last.
_loans: dict[tuple[int, str], dict[int, list[Callable[..., Any]]]] = {}
_lock = threading.RLock()
_BEHIND = "_keras_bayesdrop_original"
_ABSENT = object()


@contextlib.contextmanager
def lent(owner: Any, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Lends `owner` a method for this thread, and takes it back.

    Args:
        owner: Any object with a `__dict__`.
        name: Name of the method.
        method: Replaces it, in this thread and while open.

    Yields:
        Nothing.
    """
    key = (id(owner), name)
    thread = threading.get_ident()
    with _lock:
        if key not in _loans:
            _loans[key] = {}
            _install(owner, name, _loans[key])
        _loans[key].setdefault(thread, []).append(method)
    try:
        yield
    finally:
        with _lock:
            mine = _loans[key][thread]
            mine.remove(method)
            if not mine:
                del _loans[key][thread]
            if not _loans[key]:
                del _loans[key]
                _uninstall(owner, name)


def original_of(owner: Any, name: str) -> Any:
    """Returns a method as it is without loans, whoever has borrowed it.

    What replaces a method and calls the original must take it from here:
    `getattr` may return the dispatcher of another thread, which in this
    thread would call the replacement again.
    """
    with _lock:
        method = getattr(owner, name)
        return getattr(method, _BEHIND, method)


def own_attributes(owner: Any) -> dict[str, Any]:
    """Returns a copy of `vars(owner)` as it is without loans."""
    with _lock:
        attributes = dict(vars(owner))
        if not _loans:
            return attributes
    for name, value in list(attributes.items()):
        if not hasattr(value, _BEHIND):
            continue
        if value.before is _ABSENT:
            del attributes[name]
        else:
            attributes[name] = value.before
    return attributes


def _install(
    owner: Any, name: str, loans: dict[int, list[Callable[..., Any]]]
) -> None:
    """Puts a method in place that asks who calls."""
    original = getattr(owner, name)
    attributes = vars(owner)

    # Other threads may ask the dispatcher for its signature.
    @functools.wraps(original)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        mine = loans.get(threading.get_ident())
        return (mine[-1] if mine else original)(*args, **kwargs)

    setattr(dispatch, _BEHIND, original)
    dispatch.before = attributes.get(name, _ABSENT)  # type: ignore[attr-defined]
    attributes[name] = dispatch


def _uninstall(owner: Any, name: str) -> None:
    attributes = vars(owner)
    before = attributes[name].before
    if before is _ABSENT:
        del attributes[name]
    else:
        attributes[name] = before
