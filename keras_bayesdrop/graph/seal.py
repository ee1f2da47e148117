# SPDX-License-Identifier: Apache-2.0
"""Tells at little cost that a model is as it was.

`version_of` looks into every attribute of every layer. A seal holds the very
objects that it found there. Where an attribute is still the same object, and
one that cannot change or that counts by identity, there is nothing to look
into. A seal that is broken says nothing: only `version_of` knows whether the
change matters.
"""

import operator
import types
from collections.abc import Iterable
from typing import Any

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.fingerprint import is_whole
from keras_bayesdrop.graph.fingerprint import state_of
from keras_bayesdrop.graph.fingerprint import states_of
from keras_bayesdrop.graph.fingerprint import times_forgotten
from keras_bayesdrop.graph.fingerprint import version_of

_FIXED = frozenset({int, bool, float, str, bytes, complex, type(None)})


class Seal:
    """Holds a model as it is.

    Args:
        model: A Keras model or layer.
        operations: Of its graph, if there are any that are not layers.
    """

    def __init__(self, model: Any, operations: Iterable[Any] = ()) -> None:
        operations = list(operations)
        layers = private_keras.all_layers(model)
        seen = {id(layer) for layer in layers}
        others = [each for each in operations if id(each) not in seen]
        self._forgotten = times_forgotten()
        self._parts = [_Part(each) for each in [*layers, *others]]
        # Last: what changes meanwhile breaks the seal.
        self.version = version_of(model, operations)

    def is_intact(self) -> bool:
        """Returns whether nothing has changed for sure."""
        if self._forgotten != times_forgotten():
            return False
        return all(part.is_intact() for part in self._parts)


class _Part:
    """A layer as it is.

    Args:
        layer: A Keras layer or operation.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._type = type(layer)
        self._attributes = attributes = vars(layer)
        self._count = len(attributes)
        states = {
            name: state
            for name, state in states_of(layer)
            if name in attributes
        }
        private = private_keras.call_attributes(layer)
        self._names = (*states, *private)
        self._values = tuple(attributes[name] for name in self._names)
        self._states = [
            (value, state)
            for value, state in zip(self._values, states.values(), strict=False)
            if not _is_fixed(value)
        ]
        self._settings = private_keras.call_settings(layer)
        self._lists = [
            (held, tuple(held)) for held in private_keras.held_lists(layer)
        ]

    def is_intact(self) -> bool:
        """Returns whether nothing has changed for sure."""
        attributes = self._attributes
        if (
            len(attributes) != self._count
            or type(self._layer) is not self._type
        ):
            return False
        try:
            now = map(attributes.__getitem__, self._names)
            if not all(map(operator.is_, now, self._values)):
                return False
        except KeyError:
            return False
        if private_keras.call_settings(self._layer) != self._settings:
            return False
        for held, items in self._lists:
            if len(held) != len(items) or not all(
                map(operator.is_, held, items)
            ):
                return False
        return all(state_of(value) == state for value, state in self._states)


def _is_fixed(value: Any) -> bool:
    """Returns whether an attribute has the same state while it is the same."""
    kind = type(value)
    if kind in _FIXED or is_whole(kind):
        return True
    if kind is types.FunctionType:
        return not value.__closure__
    return kind is tuple and all(map(_is_fixed, value))
