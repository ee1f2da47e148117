# SPDX-License-Identifier: Apache-2.0
"""Arguments of a layer that one of its parts holds, as attributes."""

from typing import Any


def part_attribute(part: str, name: str) -> Any:
    """Returns a property that reads and writes an attribute of a part.

    A Keras layer shows the arguments of its constructor as attributes. Where a
    part holds the argument, the layer passes the attribute on.

    Args:
        part: Name of the layer's attribute that holds the part, or `None`.
        name: Name of the part's attribute.

    Returns:
        A property. It is `None` while the layer has no such part.
    """

    def read(layer: Any) -> Any:
        return getattr(getattr(layer, part), name, None)

    def write(layer: Any, value: Any) -> None:
        setattr(getattr(layer, part), name, value)

    return property(read, write, doc=f"The `{name}` of `{part}`.")
