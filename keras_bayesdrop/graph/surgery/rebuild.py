# SPDX-License-Identifier: Apache-2.0
"""A new model of new layers, in the graph of another.

Nested models are opened: the new model is one graph of layers. It has the
inputs and the outputs of the old one, with their names and their structure,
and it is a `Sequential` if the old one was nothing else, layers beside
shortcuts opened as well.
"""

from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.surgery.copies import Part
from keras_bayesdrop.graph.surgery.names import Names


def names_of(model: Any, graph: Graph) -> Names:
    """Returns the names for the layers of a new model.

    Inputs and outputs keep theirs, and so do layers that are not in a nested
    model.

    Args:
        model: The old model.
        graph: Its graph.

    Returns:
        The names, none handed out yet.
    """
    root = private_keras.graph_of(model)
    assert root is not None
    names = Names(_input_config(root, t)["name"] for t in root.inputs)
    if not isinstance(model, keras.Sequential):
        made_by = {v: n.operation for n in graph.nodes for v in n.outputs}
        for value, name in zip(graph.outputs, root.output_names, strict=True):
            if value in made_by:
                names.reserve(made_by[value], name)
    for node in graph.nodes:
        if node.path == node.operation.name:
            names.reserve(node.operation, node.path)
    return names


def rebuild(
    model: Any,
    graph: Graph,
    names: Names,
    parts_of: Callable[[Node], list[Part]],
) -> keras.Model:
    """Builds a new model.

    Args:
        model: The old model.
        graph: Its graph.
        names: The names of the new layers.
        parts_of: Returns the new layers that stand for a node, in a row. Two
            calls of one layer may get the same ones.

    Returns:
        The new model, not compiled, with weights loaded.
    """
    root = private_keras.graph_of(model)
    assert root is not None
    parts: list[list[Part]] = []
    for node in graph.nodes:
        mine = parts_of(node)
        if not mine and not set(graph.outputs).isdisjoint(node.outputs):
            # An output keeps its name.
            mine = [Part(_named(node, names), alone=True)]
        parts.append(mine)
    inputs = [
        keras.layers.InputLayer.from_config(_input_config(root, tensor))
        for tensor in root.inputs
    ]
    if _all_sequential(model) and _in_a_row(graph):
        flat = [part.layer for mine in parts for part in mine]
        layers = [layer for layer in flat if isinstance(layer, keras.Layer)]
        new = keras.Sequential([*inputs, *layers], name=model.name)
    else:
        tensors = [layer.output for layer in inputs]
        outputs = _replay(graph, parts, tensors)
        structure = private_keras.inputs_structure(root)
        new = keras.Model(
            keras.tree.pack_sequence_as(structure, tensors),
            graph.pack(outputs),
            name=model.name,
        )
    loaded: set[int] = set()
    for part in (part for mine in parts for part in mine):
        if id(part.layer) not in loaded:
            loaded.add(id(part.layer))
            part.load()
    return new


def _named(node: Node, names: Names) -> Any:
    """Returns a layer that does nothing, in place of one that is gone."""
    return keras.layers.Identity(
        name=names.take(node.operation, node.path),
        dtype=node.operation.dtype_policy.name,
    )


def _replay(graph: Graph, parts: list[list[Part]], inputs: list[Any]) -> Any:
    """Calls new layers as the old ones were called; returns the outputs."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    for node, mine in zip(graph.nodes, parts, strict=True):
        args, kwargs = node.fill([values[n] for n in node.inputs])
        # Without positional arguments, the input was named.
        made = args[0] if args else values[node.inputs[0]]
        for part in mine:
            if part.alone:
                args, kwargs = (made,), _mask_only(part.layer, kwargs)
            made = part.layer(*args, **kwargs)
            args, kwargs = (made,), {}
        made = keras.tree.flatten(made)
        values.update(zip(node.outputs, made, strict=True))
    return [values[n] for n in graph.outputs]


def _mask_only(layer: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the mask among arguments, if the layer takes one."""
    wanted = "mask" in kwargs and private_keras.accepts(layer, "mask")
    return {"mask": kwargs["mask"]} if wanted else {}


def _input_config(root: Any, tensor: Any) -> dict[str, Any]:
    """Returns the config of the input layer that a tensor comes from."""
    for layer in root.layers:
        if isinstance(layer, keras.layers.InputLayer):
            if layer.output is tensor:
                config: dict[str, Any] = layer.get_config()
                return config
    raise AssertionError(f"{tensor} is no input")


def _all_sequential(model: Any) -> bool:
    """Whether a model is a row of layers, or of models that are."""
    return isinstance(model, keras.Sequential) and all(
        not isinstance(layer, keras.Model) or _all_sequential(layer)
        for layer in model.layers
    )


def _in_a_row(graph: Graph) -> bool:
    """Whether each node takes what the one before it made, and no more."""
    last = graph.inputs
    for node in graph.nodes:
        if node.inputs != last:
            return False
        last = node.outputs
    return True
