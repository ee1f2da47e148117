# SPDX-License-Identifier: Apache-2.0
"""Builds a model of new layers in the graph of an old model.

Nested models are opened: the new model is one graph of layers. It keeps the
names and the structure of inputs and outputs. It is a `Sequential` if the old
model and its nested models are, and no residual block was opened.
"""

from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.surgery.copies import Replacement
from keras_bayesdrop.graph.surgery.names import LayerNames


def names_of(model: Any, graph: Graph) -> LayerNames:
    """Returns the names for the layers of a new model.

    Inputs, outputs, and layers outside of nested models keep their names.

    Args:
        model: The old model.
        graph: Its graph.

    Returns:
        The names, not given to layers yet.
    """
    root = private_keras.graph_of(model)
    assert root is not None
    names = LayerNames(_input_config(root, t)["name"] for t in root.inputs)
    if not isinstance(model, keras.Sequential):
        producers = {v: n.operation for n in graph.nodes for v in n.outputs}
        for value, name in zip(graph.outputs, root.output_names, strict=True):
            if value in producers:
                names.reserve(producers[value], name)
    for node in graph.nodes:
        if node.path == node.operation.name:
            names.reserve(node.operation, node.path)
    return names


def rebuild(
    model: Any,
    graph: Graph,
    names: LayerNames,
    replace: Callable[[Node], list[Replacement]],
) -> keras.Model:
    """Builds a new model.

    Args:
        model: The old model.
        graph: Its graph.
        names: The names of the new layers.
        replace: Returns the new layers, in order, that replace the layer of a
            node. It is called once for each layer, with its first node.

    Returns:
        The new model, not compiled, with weights loaded.
    """
    root = private_keras.graph_of(model)
    assert root is not None
    by_layer: dict[int, list[Replacement]] = {}
    by_node: list[list[Replacement]] = []
    for node in graph.nodes:
        key = id(node.operation)
        if key not in by_layer:
            by_layer[key] = replace(node)
        layers = by_layer[key]
        if not layers and not set(graph.outputs).isdisjoint(node.outputs):
            # An output keeps its name.
            layers = [Replacement(_named(node, names), alone=True)]
        by_node.append(layers)
    inputs = [
        keras.layers.InputLayer.from_config(_input_config(root, tensor))
        for tensor in root.inputs
    ]
    flat = [replacement for layers in by_node for replacement in layers]
    if _all_sequential(model) and _is_chain(graph):
        chain = [
            each.layer for each in flat if isinstance(each.layer, keras.Layer)
        ]
        new = keras.Sequential([*inputs, *chain], name=model.name)
    else:
        tensors = [layer.output for layer in inputs]
        outputs = _replay(graph, by_node, tensors)
        structure = private_keras.inputs_structure(root)
        new = keras.Model(
            keras.tree.pack_sequence_as(structure, tensors),
            graph.pack(outputs),
            name=model.name,
        )
    loaded: set[int] = set()
    for each in flat:
        if id(each.layer) not in loaded:
            loaded.add(id(each.layer))
            each.load()
    return new


def _named(node: Node, names: LayerNames) -> Any:
    """Returns an identity layer with the name of a removed layer."""
    return keras.layers.Identity(
        name=names.take(node.operation, node.path),
        dtype=node.operation.dtype_policy.name,
    )


def _replay(
    graph: Graph, by_node: list[list[Replacement]], inputs: list[Any]
) -> Any:
    """Calls the new layers like the old ones; returns the outputs."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    for node, layers in zip(graph.nodes, by_node, strict=True):
        args, kwargs = node.fill([values[n] for n in node.inputs])
        # A call without positional arguments names its input.
        value = args[0] if args else values[node.inputs[0]]
        for each in layers:
            if each.alone:
                args, kwargs = (value,), _mask_only(each.layer, kwargs)
            value = each.layer(*args, **kwargs)
            args, kwargs = (value,), {}
        flat = keras.tree.flatten(value)
        values.update(zip(node.outputs, flat, strict=True))
    return [values[n] for n in graph.outputs]


def _mask_only(layer: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the mask from the arguments, if the layer takes one."""
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
    """Returns True if a model and its nested models are all sequential."""
    return isinstance(model, keras.Sequential) and all(
        not isinstance(layer, keras.Model) or _all_sequential(layer)
        for layer in model.layers
    )


def _is_chain(graph: Graph) -> bool:
    """Returns True if each node takes the outputs of the one before it."""
    last = graph.inputs
    for node in graph.nodes:
        if node.inputs != last:
            return False
        last = node.outputs
    return True
