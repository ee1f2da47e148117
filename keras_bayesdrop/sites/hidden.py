# SPDX-License-Identifier: Apache-2.0
"""Noise that cannot be reached: random calls inside somebody's own `call`.

A layer that calls `keras.random.dropout` in its own code owns no dropout
layer to redirect. It is found by the names that the code of its methods uses,
so that it can be reported instead of being silently left out.
"""

import types
from typing import Any

from keras_bayesdrop import _keras
from keras_bayesdrop.sites.classify import noise_of

_RANDOM_NAMES = frozenset(
    {
        "alpha_dropout",
        "dropout",
        "experimental_dropout",
        "general_dropout",
        "stateless_dropout",
        "SeedGenerator",
        "seed_generator",
        "random",
    }
)
_RANDOM_MODULES = frozenset({"nn", "random"})
_OURS = ("keras", "keras_bayesdrop")


def hidden_noise(layer: Any, path: str) -> list[tuple[str, str]]:
    """Lists layers whose own code seems to draw noise.

    Args:
        layer: A Keras layer or model.
        path: Names from the model down to the layer.

    Returns:
        Pairs of path and reason, for layers inside `layer` and itself. Layers
        of Keras and of this package are known, and not looked into.
    """
    found = []
    seen: set[int] = set()
    stack = [(layer, path)]
    while stack:
        layer, path = stack.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        names = _random_names(layer)
        if names and noise_of(layer) is None:
            found.append(
                (
                    path or layer.name,
                    f"{type(layer).__name__}.call uses "
                    f"{', '.join(sorted(names))} directly",
                )
            )
        for child in reversed(_keras.sublayers(layer)):
            stack.append(
                (child, f"{path}/{child.name}" if path else child.name)
            )
    return found


def _random_names(layer: Any) -> set[str]:
    """Returns the random names used by `call` and the methods it calls."""
    cls = type(layer)
    if cls.__module__.split(".")[0] in _OURS:
        return set()
    names: set[str] = set()
    todo, done = ["call"], set()
    while todo:
        method = todo.pop()
        done.add(method)
        function = getattr(cls, method, None)
        if not isinstance(function, types.FunctionType):
            continue
        if function.__module__.split(".")[0] in _OURS:
            continue
        used = _names_of(function.__code__)
        names |= used
        todo += [name for name in used if name not in done]
    random_names = names & _RANDOM_NAMES
    if not names & _RANDOM_MODULES:
        # Without `random` or `nn`, `self.dropout` is a layer or a number.
        random_names = {n for n in random_names if not hasattr(layer, n)}
    return random_names


def _names_of(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names
