# SPDX-License-Identifier: Apache-2.0
"""Notices changes of a model after which its compiled programs are stale.

A program reads variables when it runs. Everything else that `call` looks at is
fixed when the program is traced: rates, an epsilon, an activation. A
fingerprint holds these attributes of every layer, public ones only:

    scalars, strings, and containers of them    by value
    functions                                   by identity and by closure
    NumPy arrays                                by identity, small ones by value
    variables, layers, tensors                  by identity
    other objects                               by identity and attributes

Private attributes and those of Keras' trainer change by themselves and are
left out. So are attributes that a layer sets while it is called, such as the
attention scores that it keeps to be looked at: they are results.
"""

import contextlib
import functools
import itertools
import threading
import types
import weakref
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.identity import identity
from keras_bayesdrop.graph.loans import own_attributes

# Beyond these bounds a value counts by identity alone.
_DEPTH = 3  # containers and objects inside each other
_ENTRIES = 1000  # of a value, in all
_ARRAY_BYTES = 4096
# Fingerprints remembered per model: changes back and forth find their programs.
_VERSIONS = 32
# Traces that must change an attribute before it counts as a result: a change
# by another thread, at the same moment, is not seen so often.
_CHANGES = 2

_SCALARS = frozenset({int, bool, str, bytes, complex, type(None)})
_BY_IDENTITY = (
    keras.Operation,
    keras.Variable,
    keras.KerasTensor,
    tf.Variable,
    tf.Tensor,
    types.ModuleType,
    type,
)
_CONTAINERS = (list, tuple, dict, set, frozenset)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_LIBRARIES = frozenset({"keras", "tensorflow", "numpy", "builtins"})

# Classes, and whether their objects count by identity alone.
_whole: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()

_lock = threading.RLock()
_next = itertools.count()
_forgotten = 0
_versions: weakref.WeakKeyDictionary[Any, dict[Any, int]] = (
    weakref.WeakKeyDictionary()
)
# Per layer, how many traces changed an attribute.
_changes: weakref.WeakKeyDictionary[Any, dict[str, int]] = (
    weakref.WeakKeyDictionary()
)


def version_of(model: Any, operations: Iterable[Any] = ()) -> int:
    """Returns a number that changes when programs of a model go stale.

    Args:
        model: A Keras model or layer.
        operations: Of its graph, if there are any that are not layers.

    Returns:
        Equal for equal fingerprints, as far as they are remembered. No number
        serves two models.
    """
    layers = private_keras.all_layers(model)
    seen = {id(layer) for layer in layers}
    others = [each for each in operations if id(each) not in seen]
    fingerprint = tuple(_fingerprint(each) for each in [*layers, *others])
    with _lock:
        known = _versions.setdefault(model, {})
        number = known.pop(fingerprint, None)
        if number is None:
            number = next(_next)
        known[fingerprint] = number  # the last one used goes last
        if len(known) > _VERSIONS:
            del known[next(iter(known))]
        return number


@contextlib.contextmanager
def calls_watched(model: Any) -> Iterator[None]:
    """Looks for attributes that a trace of a model changes.

    Args:
        model: A Keras model or layer, traced while this is open.

    Yields:
        Nothing.
    """
    layers = private_keras.all_layers(model)
    before = [dict(states_of(layer)) for layer in layers]
    yield
    for layer, old in zip(layers, before, strict=True):
        new = dict(states_of(layer))
        changed = [
            name
            for name in old.keys() | new.keys()
            if old.get(name) != new.get(name)
        ]
        if changed:
            _note_results(layer, changed)


def _note_results(layer: Any, names: Iterable[str]) -> None:
    """Counts attributes that a trace changed.

    Those that count as results from now on are taken out of what is
    remembered: programs stay as they are.
    """
    with _lock:
        counts = _changes.setdefault(layer, {})
        results = set()
        for name in names:
            counts[name] = counts.get(name, 0) + 1
            if counts[name] == _CHANGES:
                results.add(name)
        if not results:
            return
        key = identity(layer)
        for model, known in list(_versions.items()):
            _versions[model] = {
                tuple(
                    _without(each, results) if each[0] == key else each
                    for each in fingerprint
                ): number
                for fingerprint, number in known.items()
            }


def times_forgotten() -> int:
    """Returns how often something was to be forgotten."""
    return _forgotten


def forget(model: Any = None) -> None:
    """Forgets what is known of a model, or of all."""
    global _forgotten
    with _lock:
        _forgotten += 1
        if model is None:
            _versions.clear()
            _changes.clear()
        for layer in () if model is None else private_keras.all_layers(model):
            _versions.pop(layer, None)
            _changes.pop(layer, None)


def _fingerprint(layer: Any) -> tuple[Any, ...]:
    """Returns what of a layer a compiled program depends on.

    Weights may change, but not which they are (adapters and quantisation add
    and replace some).
    """
    return (
        identity(layer),
        identity(type(layer)),
        tuple(map(identity, private_keras.own_variables(layer))),
        private_keras.call_settings(layer),
        identity(private_keras.compiled_by(layer)),
        tuple(states_of(layer)),
    )


def _without(
    fingerprint: tuple[Any, ...], names: Collection[str]
) -> tuple[Any, ...]:
    """Returns the fingerprint of a layer without some of its attributes."""
    *rest, states = fingerprint
    return *rest, tuple(each for each in states if each[0] not in names)


def states_of(layer: Any) -> list[tuple[str, Any]]:
    """Returns the names and states of the attributes that count."""
    left_out = private_keras.own_state(layer)
    results = _changes.get(layer) if _changes else None
    states = []
    for name, value in own_attributes(layer).items():
        if name[0] == "_" or name in left_out:
            continue
        if results and results.get(name, 0) >= _CHANGES:
            continue
        kind = type(value)
        if kind in _SCALARS:  # the common case, without a call
            states.append((name, (kind, value)))
        else:
            states.append((name, state_of(value)))
    return states


def state_of(value: Any, depth: int = _DEPTH, room: int = _ENTRIES) -> Any:
    """Returns something hashable, equal for values that act the same.

    Args:
        value: Of an attribute.
        depth: How many containers inside each other to look into.
        room: How many entries to look at.
    """
    kind = type(value)
    if kind in _SCALARS:
        return kind, value
    if kind is float:
        return float, value.hex()  # tells zeros apart; a nan equals itself
    if is_whole(kind):
        return identity(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return _array(value)
    if isinstance(value, types.MethodType):
        return identity(value.__self__), state_of(value.__func__, depth, room)
    parts = _parts(value)
    if depth == 0 or len(parts) > room:
        return identity(kind), identity(value), len(parts)
    room //= max(1, len(parts))
    states = [state_of(part, depth - 1, room) for part in parts]
    if isinstance(value, (set, frozenset)):
        return identity(kind), frozenset(states)
    if isinstance(value, (list, tuple, dict, functools.partial)):
        return identity(kind), tuple(states)
    return identity(value), tuple(states)


def is_whole(kind: type) -> bool:
    """Returns whether objects of a class count by identity alone.

    Such are objects of Keras, TensorFlow and NumPy, and what Python has built
    in, but for containers, functions and arrays.
    """
    known = _whole.get(kind)
    if known is None:
        parts = (np.ndarray, np.generic, *_CONTAINERS, *_FUNCTIONS)
        library = kind.__module__.partition(".")[0] in _LIBRARIES
        known = issubclass(kind, _BY_IDENTITY) or (
            library and not issubclass(kind, parts)
        )
        _whole[kind] = known
    return known


def _parts(value: Any) -> list[Any]:
    """Returns what a value consists of."""
    if isinstance(value, dict):
        return [part for item in list(value.items()) for part in item]
    if isinstance(value, _CONTAINERS):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.FunctionType):
        return [_content(cell) for cell in value.__closure__ or ()]
    attributes = getattr(value, "__dict__", {})
    return [
        part
        for item in dict(attributes).items()
        if item[0][:1] != "_"
        for part in item
    ]


def _content(cell: Any) -> Any:
    """Returns what a variable of a closure holds, if it was assigned."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _array(value: Any) -> Any:
    if value.dtype.hasobject or value.nbytes > _ARRAY_BYTES:
        return identity(value), value.shape, value.dtype.str
    return value.shape, value.dtype.str, value.tobytes()
