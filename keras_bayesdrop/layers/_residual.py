# SPDX-License-Identifier: Apache-2.0
"""The block of a residual layer, and the shortcut beside it."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError

PROJECTIONS = ("auto", "dense")
# Names of the layers beside the block: paths have to tell all apart.
NOISE, PROJECTION, ADD = "noise", "projection", "add"


def check_block(block: Any) -> list[keras.layers.Layer]:
    """Returns the layers of a block, in a list."""
    layers = list(block) if isinstance(block, (list, tuple)) else [block]
    if not layers or not all(
        isinstance(layer, keras.layers.Layer) for layer in layers
    ):
        raise invalid("block", block, "a Keras layer, or a list of them")
    names = [layer.name for layer in layers]
    if len({*names, NOISE, PROJECTION, ADD}) < len(names) + 3:
        raise BayesdropError(
            "The layers of `block` need names of their own. Expected unique "
            f"names, of which none is '{NOISE}', '{PROJECTION}' "
            f"or '{ADD}'. Received: {names}"
        )
    return layers


def check_projection(projection: Any) -> Any:
    """Returns `None`, one of `PROJECTIONS`, or a layer."""
    if isinstance(projection, keras.layers.Layer) or projection is None:
        return projection
    if not isinstance(projection, str) or projection not in PROJECTIONS:
        options = ", ".join(repr(each) for each in PROJECTIONS)
        raise invalid("projection", projection, f"`None`, {options} or a layer")
    return projection


def shortcut_layer(
    projection: Any, inputs: Any, outputs: Any, *, policy: Any, name: str
) -> keras.layers.Layer | None:
    """Returns the layer of the shortcut, if it needs one.

    Args:
        projection: `None`, one of `PROJECTIONS`, or a layer.
        inputs: Symbolic tensor that the block takes.
        outputs: Symbolic tensor that the block returns.
        policy: Dtype policy of a new layer.
        name: Name of the residual layer, for an error.

    Returns:
        A layer that was called with `inputs`; `None` for the input itself.
    """
    shortcut = projection
    if projection == "auto" and _alike(inputs.shape, outputs.shape):
        shortcut = None
    elif isinstance(projection, str):
        shortcut = keras.layers.Dense(
            outputs.shape[-1], use_bias=False, name=PROJECTION, dtype=policy
        )
    beside = inputs if shortcut is None else shortcut(inputs)
    if not _alike(beside.shape, outputs.shape):
        whose = "its input" if shortcut is None else "its projection"
        raise BayesdropError(
            f"The block of layer `{name}` changes the shape, so {whose} "
            f"cannot be added. Expected an output of shape {beside.shape}; or "
            "projection='auto' if only the last axis differs, else a layer "
            "that makes the shape of the block of its input. Received: an "
            f"output of shape {outputs.shape}, projection={projection!r}"
        )
    return shortcut


def _alike(one: Any, other: Any) -> bool:
    """Returns True if two shapes agree where both are known."""
    return len(one) == len(other) and all(
        a == b or a is None or b is None
        for a, b in zip(one, other, strict=True)
    )
