# SPDX-License-Identifier: Apache-2.0
"""A smaller model without the channels that do nothing.

The constants of all values are found from the inputs on. Then every channel
is marked to go, but those of inputs and outputs, and layers take back what may
not go, again and again until all agree: what is left is the largest set that
is right. It needs no second round, since a unit of constants only is itself a
constant, and a unit that goes needs none of its inputs.
"""

import collections
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.surgery.copies import Part
from keras_bayesdrop.graph.surgery.copies import copied
from keras_bayesdrop.graph.surgery.kernels import BoolArray
from keras_bayesdrop.graph.surgery.rebuild import names_of
from keras_bayesdrop.graph.surgery.rebuild import rebuild
from keras_bayesdrop.sparsity.flow import Flow
from keras_bayesdrop.sparsity.flows import flow_of
from keras_bayesdrop.sparsity.flows import width


def shrink(model: Any) -> keras.Model:
    """Returns a copy of a plain model without channels that do nothing.

    Args:
        model: A built Functional or Sequential model with zeros in its
            kernels. Never changed.

    Returns:
        A new model that computes the same.
    """
    graph = check_graph(model)
    calls = collections.Counter(id(node.operation) for node in graph.nodes)
    flows = [
        flow_of(node, graph.specs, calls[id(node.operation)] > 1)
        for node in graph.nodes
    ]
    constants = _constants(graph, flows)
    removed = _removed(graph, flows, constants)
    names = names_of(model, graph)
    done: dict[int, list[Part]] = {}
    flow_at = dict(zip(map(id, graph.nodes), flows, strict=True))

    def parts_of(node: Node) -> list[Part]:
        key = id(node.operation)
        if key not in done:
            name = names.take(node.operation, node.path)
            part = flow_at[id(node)].part(
                name,
                [removed[n] for n in node.inputs],
                [removed[n] for n in node.outputs],
                [constants[n] for n in node.inputs],
            )
            done[key] = [part or copied(node.operation, name, {})]
        return done[key]

    return rebuild(model, graph, names, parts_of)


def _constants(graph: Graph, flows: list[Flow]) -> list[Float64Array]:
    """Returns, per value, its constants: NaN for channels that vary."""
    constants = [np.full(width(spec), np.nan) for spec in graph.specs]
    for node, flow in zip(graph.nodes, flows, strict=True):
        made = flow.constants([constants[n] for n in node.inputs])
        for number, values in zip(node.outputs, made, strict=True):
            constants[number] = values
    return constants


def _removed(
    graph: Graph, flows: list[Flow], constants: list[Float64Array]
) -> list[BoolArray]:
    """Returns, per value, which of its channels go."""
    removed = [np.ones(width(spec), bool) for spec in graph.specs]
    for number in (*graph.inputs, *graph.outputs):
        removed[number][:] = False
    while True:
        before = sum(int(each.sum()) for each in removed)
        for node, flow in zip(
            reversed(graph.nodes), reversed(flows), strict=True
        ):
            flow.limit(
                [removed[n] for n in node.inputs],
                [removed[n] for n in node.outputs],
                [constants[n] for n in node.inputs],
            )
        if sum(int(each.sum()) for each in removed) < before:
            continue
        empty = [each for each in removed if each.size and each.all()]
        if not empty:
            return removed
        empty[0][0] = False  # Keras has no layer without units.
