# SPDX-License-Identifier: Apache-2.0
"""Noise that cannot be reached: random calls inside somebody's own code.

A layer that calls `keras.random.dropout` in its own `call` owns no dropout
layer to redirect. It is found by reading which functions its code names, so
that it can be reported instead of being silently left out.
"""

import dis
import types
from collections.abc import Iterator
from typing import Any

import keras

from keras_bayesdrop import _keras
from keras_bayesdrop.sites.classify import own_call

# Functions that draw, wherever they come from.
_DRAWING = frozenset(
    {
        "alpha_dropout",
        "dropout",
        "experimental_dropout",
        "general_dropout",
        "stateless_dropout",
    }
)
_LIBRARIES = ("keras", "keras_bayesdrop", "tensorflow", "numpy")
_STARTS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF")
_GOES_ON = ("LOAD_ATTR", "LOAD_METHOD")


def hidden_noise(layer: Any, path: str) -> list[tuple[str, str]]:
    """Lists layers whose own code draws noise.

    Args:
        layer: A Keras layer or model.
        path: Names from the model down to the layer.

    Returns:
        Pairs of path and reason, for `layer` and the layers inside. Layers of
        Keras and of this package are known, and not looked into.
    """
    found = []
    seen: set[int] = set()
    stack = [(layer, path)]
    while stack:
        layer, path = stack.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        names = sorted(_drawing_names(layer))
        if names or own_call(layer) is not None:
            how = f"uses {', '.join(names)}" if names else "is not Dropout's"
            reason = f"the code of {type(layer).__name__}.call {how}"
            found.append((path or layer.name, reason))
        for child in reversed(_keras.sublayers(layer)):
            inside = f"{path}/{child.name}" if path else child.name
            stack.append((child, inside))
    return found


def _drawing_names(layer: Any) -> set[str]:
    """Returns the drawing functions that a layer's code names."""
    names: set[str] = set()
    done: set[int] = set()
    todo = list(_methods(layer, "call"))
    if isinstance(layer, keras.layers.Lambda):
        todo.append(layer.function)
    while todo:
        function = todo.pop()
        if not isinstance(function, types.FunctionType) or id(function) in done:
            continue
        done.add(id(function))
        if function.__module__.split(".")[0] in _LIBRARIES:
            continue
        for chain in _chains(function.__code__):
            if chain[0] == "self":
                todo.extend(_methods(layer, chain[1] if chain[1:] else ""))
                continue
            target = _resolve(function, chain)
            if _draws(target, chain):
                names.add(".".join(chain))
            else:
                todo.append(target)
    return names


def _methods(layer: Any, name: str) -> Iterator[Any]:
    """Yields every version of a method that a layer has inherited."""
    for cls in type(layer).__mro__:
        if name in vars(cls) and not _keras.is_ours(cls):
            yield vars(cls)[name]


def _draws(target: Any, chain: tuple[str, ...]) -> bool:
    module = str(getattr(target, "__module__", ""))
    name = getattr(target, "__name__", chain[-1])
    if isinstance(target, types.FunctionType) and not module.startswith(
        _LIBRARIES
    ):
        return False
    from_random = "random" in chain[:-1] or module.endswith(".random")
    named = name in _DRAWING or chain[-1] in _DRAWING
    return callable(target) and (named or from_random)


def _resolve(function: types.FunctionType, chain: tuple[str, ...]) -> Any:
    """Follows `a.b.c` from the globals of a function; `None` if it cannot."""
    target = function.__globals__.get(chain[0])
    for name in chain[1:]:
        target = getattr(target, name, None)
    return target


def _chains(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Yields the dotted names that code uses, inner functions included."""
    chain: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname.startswith(_GOES_ON) and chain:
            chain.append(str(step.argval))
            continue
        if chain:
            yield tuple(chain)
        chain = []
        if step.opname.startswith(_STARTS):
            argument = step.argval
            last = argument[-1] if isinstance(argument, tuple) else argument
            chain = [str(last)]
    if chain:
        yield tuple(chain)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _chains(constant)
