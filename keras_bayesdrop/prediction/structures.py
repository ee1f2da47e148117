# SPDX-License-Identifier: Apache-2.0
"""Structures like the outputs of a model: of heads, losses, labels."""

from collections.abc import Callable
from typing import Any


def is_serialised(leaf: Any) -> bool:
    """Returns whether a dict stands for one object, as Keras writes it."""
    return isinstance(leaf, dict) and {"class_name", "config"} <= set(leaf)


def leaves_of(structure: Any) -> list[Any]:
    """Returns the leaves of a structure; a serialised object is one."""
    if isinstance(structure, dict) and not is_serialised(structure):
        structure = list(structure.values())
    if isinstance(structure, (list, tuple)):
        return [leaf for each in structure for leaf in leaves_of(each)]
    return [structure]


def is_leaf(value: Any) -> bool:
    """Returns whether a value is no structure of others."""
    return leaves_of(value) == [value]


def pair_leaves(
    structure: Any,
    value: Any,
    pairs: dict[int, Any],
    fits: Callable[[Any], bool] = is_leaf,
) -> bool:
    """Pairs the numbers in a structure with the leaves of another like it.

    Args:
        structure: Dicts, lists and tuples of integers.
        value: The other structure.
        pairs: Gets the leaf of each number.
        fits: Whether a value can be a leaf.

    Returns:
        Whether the two are alike.
    """
    if isinstance(structure, dict):
        return (
            isinstance(value, dict)
            and set(value) == set(structure)
            and all(
                pair_leaves(structure[key], value[key], pairs, fits)
                for key in structure
            )
        )
    if isinstance(structure, (list, tuple)):
        return (
            isinstance(value, (list, tuple))
            and len(value) == len(structure)
            and all(
                map(
                    lambda s, v: pair_leaves(s, v, pairs, fits),
                    structure,
                    value,
                )
            )
        )
    pairs[structure] = value
    return fits(value)
