# SPDX-License-Identifier: Apache-2.0
"""Names of layers once nested models are opened: each is there once."""

from collections.abc import Iterable
from typing import Any


class Names:
    """Hands out names that no other layer has.

    A layer keeps its name if no other has taken it; otherwise it is named by
    its path, and numbered if that is taken as well.

    Args:
        taken: Names that are not to be used.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._reserved: dict[int, str] = {}

    def reserve(self, layer: Any, name: str) -> None:
        """Keeps a name for a layer, unless another has it."""
        if name not in self._taken and id(layer) not in self._reserved:
            self._taken.add(name)
            self._reserved[id(layer)] = name

    def inherit(self, layer: Any, other: Any) -> None:
        """Hands the name that was kept for `other` on to `layer`."""
        if id(other) in self._reserved:
            self._reserved[id(layer)] = self._reserved.pop(id(other))

    def take(self, layer: Any, path: str) -> str:
        """Returns the name of a layer.

        Args:
            layer: The layer.
            path: Names from the model down to it.

        Returns:
            A name that has not been handed out before.
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
