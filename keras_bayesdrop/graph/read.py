# SPDX-License-Identifier: Apache-2.0
"""The graph of a model, all that can be opened up, as numbered values.

    values   0 .. n-1, one per tensor that flows; inputs first
    nodes    operation, numbers of the values it takes and makes, in an order
             in which they can run (Keras' own order, nested models, residual
             layers and wrappers with noise opened in place)

A model whose `call` is its own code is a graph of one node.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.layers.sources import ResidualSource
from keras_bayesdrop.noise import NoiseThenLayer

# The only arguments a nested model may be called with and still be opened up.
_IGNORED_ARGUMENTS = {"training", "mask"}


@dataclasses.dataclass(frozen=True)
class Node:
    """One call of one operation.

    Attributes:
        path: Names from the model down to the operation, joined by `/`.
        operation: Keras layer or operation.
        inputs: Numbers of the values it takes.
        outputs: Numbers of the values it makes.
        fill: Maps tensors for `inputs` to the arguments of the call.
    """

    path: str
    operation: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    fill: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]


@dataclasses.dataclass(frozen=True)
class Graph:
    """A model as nodes over numbered values.

    Attributes:
        nodes: In an order in which they can run.
        inputs: Numbers of the input values.
        outputs: Numbers of the output values.
        specs: Per value, its symbolic tensor (shape and dtype).
        flatten: Maps what a user passes to tensors for `inputs`.
        pack: Maps tensors for `outputs` to the structure of the model.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[Any, ...]
    flatten: Callable[[Any], list[Any]]
    pack: Callable[[Sequence[Any]], Any]


def read_graph(model: Any) -> Graph | None:
    """Reads the graph of a Functional or Sequential model.

    Args:
        model: A built Keras model.

    Returns:
        `None` if the model's `call` is its own code.
    """
    root = private_keras.graph_of(model)
    if root is None:
        return None
    specs: list[Any] = []
    nodes: list[Node] = []

    def new_value(spec: Any) -> int:
        specs.append(spec)
        return len(specs) - 1

    def visit(graph: Any, numbers: dict[int, int], prefix: str) -> None:
        """Appends the nodes of `graph`; `numbers` maps tensor ids to values."""
        for node in private_keras.nodes_in_order(graph):
            if any(id(t) not in numbers for t in node.input_tensors):
                continue  # Not on the way from these inputs.
            path = prefix + node.operation.name
            inner = _opened(node)
            if inner is not None:
                inner_numbers = {
                    id(inside): numbers[id(outside)]
                    for inside, outside in inner[1]
                }
                visit(inner[0], inner_numbers, path + "/")
                for outside, inside in zip(
                    node.outputs, inner[0].outputs, strict=True
                ):
                    numbers[id(outside)] = inner_numbers[id(inside)]
                continue
            if _is_row(node):
                (source,) = (numbers[id(t)] for t in node.input_tensors)
                value = row([node.operation], source, prefix)
                numbers[id(node.outputs[0])] = value
                continue
            tensors = list(node.input_tensors)
            outputs = tuple(new_value(t) for t in node.outputs)
            numbers.update(
                {id(t): n for t, n in zip(node.outputs, outputs, strict=True)}
            )
            nodes.append(
                Node(
                    path,
                    node.operation,
                    tuple(numbers[id(t)] for t in tensors),
                    outputs,
                    _filler(node, tensors),
                )
            )

    def row(layers: Sequence[Any], value: int, prefix: str) -> int:
        """Appends the nodes of layers in a row; returns what they make."""
        for layer in layers:
            path = prefix + layer.name
            graph = private_keras.graph_of(layer)
            if graph is not None and _takes(graph, [specs[value]]):
                inside = {id(graph.inputs[0]): value}
                visit(graph, inside, path + "/")
                value = inside[id(graph.outputs[0])]
            elif isinstance(layer, NoiseThenLayer):
                value = row(layer.noise_then_layer(), value, path + "/")
            elif _opens(layer, specs[value]):
                shortcut, branch, add = layer.residual_layers()
                ends = tuple(
                    row(each, value, path + "/") for each in (shortcut, branch)
                )
                spec = add.compute_output_spec([specs[n] for n in ends])
                value = new_value(spec)
                inside_path = f"{path}/{add.name}"
                nodes.append(Node(inside_path, add, ends, (value,), _list))
            else:
                output = new_value(layer.compute_output_spec(specs[value]))
                nodes.append(Node(path, layer, (value,), (output,), _alone))
                value = output
        return value

    numbers = {id(t): new_value(t) for t in root.inputs}
    inputs = tuple(numbers[id(t)] for t in root.inputs)
    visit(root, numbers, "")
    structure = private_keras.outputs_structure(root)
    return Graph(
        tuple(nodes),
        inputs,
        tuple(numbers[id(t)] for t in root.outputs),
        tuple(specs),
        lambda x: private_keras.standardize_inputs(root, x),
        lambda flat: keras.tree.pack_sequence_as(structure, list(flat)),
    )


def _filler(node: Any, tensors: Sequence[Any]) -> Callable[..., Any]:
    keys = [id(t) for t in tensors]
    arguments = node.arguments

    def fill(values: Sequence[Any]) -> Any:
        return arguments.fill_in(dict(zip(keys, values, strict=True)))

    return fill


def _alone(values: Sequence[Any]) -> Any:
    """Fills the arguments of a call that takes one tensor."""
    return (values[0],), {}


def _list(values: Sequence[Any]) -> Any:
    """Fills the arguments of a call that takes a list of tensors."""
    return (list(values),), {}


def _is_row(node: Any) -> bool:
    """Returns whether a node only calls other layers, with one tensor."""
    return (
        len(node.input_tensors) == len(node.outputs) == 1
        and len(node.arguments.args) == 1
        and not set(node.arguments.kwargs) - {"training"}
        and (
            isinstance(node.operation, NoiseThenLayer)
            or _opens(node.operation, node.input_tensors[0])
        )
    )


def _opens(layer: Any, tensor: Any) -> bool:
    """Returns whether a layer is a residual one that can be taken apart.

    It casts its input to its own compute dtype before anything else, so the
    layers inside have to do the same with a tensor of another dtype.
    """
    if not isinstance(layer, ResidualSource):
        return False
    shortcut, branch, add = layer.residual_layers()
    first = [*shortcut[:1], *branch[:1], add]
    wanted = layer.compute_dtype  # type: ignore[attr-defined]
    return tensor.dtype == wanted or all(
        each.compute_dtype == wanted for each in first
    )


def _opened(node: Any) -> tuple[Any, list[tuple[Any, Any]]] | None:
    """Returns the graph inside a node, and pairs (its input, what feeds it).

    `None` if the node is no model, or is called in a way that needs more than
    handing over its inputs: other arguments, another dtype or rank.
    """
    graph = private_keras.graph_of(node.operation)
    if graph is None:
        return None
    arguments = node.arguments
    if len(arguments.args) != 1 or set(arguments.kwargs) - _IGNORED_ARGUMENTS:
        return None
    if arguments.kwargs.get("mask") is not None:
        return None
    structure = private_keras.inputs_structure(graph)
    if isinstance(arguments.args[0], dict) or isinstance(structure, dict):
        # Keras pairs these by name; flat lists would pair them by order.
        if not _same_keys(arguments.args[0], structure):
            return None
    tensors = keras.tree.flatten(arguments.args[0])
    if not _takes(graph, tensors):
        return None
    return graph, list(zip(graph.inputs, tensors, strict=True))


def _takes(graph: Any, tensors: Sequence[Any]) -> bool:
    """Returns whether a graph takes tensors as they are, dtype and rank."""
    return len(tensors) == len(graph.inputs) and all(
        isinstance(outside, private_keras.KerasTensor)
        and outside.dtype == inside.dtype
        and len(outside.shape) == len(inside.shape)
        for outside, inside in zip(tensors, graph.inputs, strict=True)
    )


def _same_keys(one: Any, other: Any) -> bool:
    both = isinstance(one, dict) and isinstance(other, dict)
    return both and set(one) == set(other)
