# SPDX-License-Identifier: Apache-2.0
"""A model and its outputs, down to the last bit."""

from typing import Any

import keras


def fingerprint(model: Any) -> dict[str, Any]:
    """Returns everything of a model that looking at it must not change."""
    parts: dict[str, Any] = {}
    for number, layer in enumerate([model, *model._flatten_layers(False)]):
        where = f"{number} {layer.name}"
        parts[f"{where} attributes"] = sorted(vars(layer))
        parts[f"{where} trainable"] = (layer.trainable, layer.built)
        parts[f"{where} nodes"] = (
            len(layer._inbound_nodes),
            len(layer._outbound_nodes),
        )
        parts[f"{where} output"] = _output_of(layer)
        parts[f"{where} own losses"] = len(layer._losses)
        for index, variable in enumerate(layer.variables):
            parts[f"{where} variable {index}"] = _bits(variable)
    parts["losses"] = [_bits(loss) for loss in model.losses]
    parts["stop"] = getattr(model, "stop_predicting", "never set")
    return parts


def outputs_of(model: Any, x: Any) -> list[bytes]:
    """Returns the bits of what a model predicts in inference mode."""
    outputs = model(x, training=False)
    return [_bits(value) for value in keras.tree.flatten(outputs)]


def _bits(value: Any) -> bytes:
    return keras.ops.convert_to_numpy(value).tobytes()


def _output_of(layer: Any) -> str:
    try:
        return str(keras.tree.map_structure(lambda t: t.shape, layer.output))
    except (AttributeError, ValueError) as error:
        return str(error)
