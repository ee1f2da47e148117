# SPDX-License-Identifier: Apache-2.0
"""The layers inside a layer, and which of them are known to hide no noise."""

import functools
import types
from collections.abc import Iterator
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.loans import own_attributes

# Packages whose layers draw only where `inner_sites` says so.
_KNOWN = ("keras.src.layers.", "keras_bayesdrop.layers.")
_AUGMENTATION = "keras.src.layers.preprocessing."
_LIBRARIES = ("keras.", "keras_bayesdrop.", "tensorflow.")
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)


def layer_tree(layer: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yields a layer and every layer below it, each once, with its path.

    Args:
        layer: A Keras layer.
        path: Names from the model down to the layer.

    Yields:
        Pairs of layer and path, owners before what they own.
    """
    seen: set[int] = set()

    def visit(layer: Any, path: str) -> Iterator[tuple[Any, str]]:
        if id(layer) in seen:
            return
        seen.add(id(layer))
        yield layer, path
        for child, inside in children(layer, path):
            yield from visit(child, inside)

    yield from visit(layer, path)


def children(layer: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yields the layers that a layer owns directly, with their paths."""
    names: dict[str, int] = {}
    for child in private_keras.sublayers(layer):
        name = child.name
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name}#{names[name]}"
        yield child, f"{path}/{name}" if path else name


def is_known(layer: Any) -> bool:
    """Returns whether `inner_sites` knows all noise that a layer draws.

    That holds for Keras' layers and for those of this package, unless they
    run a function of somebody else (`Lambda`, an activation). All others are
    traced to see what they draw.
    """
    if not isinstance(layer, keras.Layer):
        # An operation of `keras.ops`: these draw nothing.
        return type(layer).__module__.startswith("keras.src.ops.")
    if private_keras.graph_of(layer) is not None:
        return True
    kind = type(layer)
    module = f"{kind.__module__}."
    if not module.startswith(_KNOWN) or kind is keras.layers.Lambda:
        return False
    return not any(
        isinstance(value, _FUNCTIONS) and _is_foreign(value)
        for value in own_attributes(layer).values()
    )


def is_augmentation(layer: Any) -> bool:
    """Returns whether a layer is one of Keras' random augmentations."""
    module = type(layer).__module__
    return module.startswith(_AUGMENTATION) and bool(
        private_keras.seed_variables(layer)
    )


def is_stateful(operation: Any) -> bool:
    """Returns whether a layer carries state from batch to batch."""
    return any(
        isinstance(layer, keras.layers.RNN) and layer.stateful
        for layer in private_keras.all_layers(operation)
    )


def _is_foreign(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    module = f"{getattr(function, '__module__', '')}."
    return not module.startswith(_LIBRARIES)
