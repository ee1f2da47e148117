# SPDX-License-Identifier: Apache-2.0
"""Unique names for the layers of a model whose nested models are opened."""

from collections.abc import Iterable
from typing import Any


class LayerNames:
    """Gives each layer a unique name.

    A layer keeps its name if it is free. Otherwise the name is the path of the
    layer, with a number if the path is taken as well.

    Args:
        taken: Names that layers must not get.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._reserved: dict[int, str] = {}

    def reserve(self, layer: Any, name: str) -> None:
        """Reserves a name for a layer, unless it is taken."""
        if name not in self._taken and id(layer) not in self._reserved:
            self._taken.add(name)
            self._reserved[id(layer)] = name

    def inherit(self, layer: Any, other: Any) -> None:
        """Moves the name reserved for `other` to `layer`."""
        if id(other) in self._reserved:
            self._reserved[id(layer)] = self._reserved.pop(id(other))

    def take(self, layer: Any, path: str) -> str:
        """Returns the name of a layer.

        Args:
            layer: The layer.
            path: Names from the model down to it.

        Returns:
            A name that no other layer got.
        """
        if id(layer) in self._reserved:
            return self._reserved.pop(id(layer))
        by_path = path.replace("/", "_")
        name = layer.name if layer.name not in self._taken else by_path
        number = 1
        while name in self._taken:
            number += 1
            name = f"{by_path}_{number}"
        self._taken.add(name)
        return name
