# SPDX-License-Identifier: Apache-2.0
"""Removes channels that have no effect from a model.

First the constants of all values are computed, from the inputs on. Then all
channels except those of inputs and outputs are marked as removed, and layers
restore the channels that they need, until nothing changes. The result is the
largest valid set. One round suffices: a unit that depends on constants alone is
itself a constant, and a removed unit needs none of its inputs.
"""

import collections
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.surgery import BoolArray
from keras_bayesdrop.graph.surgery import Replacement
from keras_bayesdrop.graph.surgery import copy_layer
from keras_bayesdrop.graph.surgery import names_of
from keras_bayesdrop.graph.surgery import rebuild
from keras_bayesdrop.sparsity._channel_flows import CallChannels
from keras_bayesdrop.sparsity._channel_flows import Flow
from keras_bayesdrop.sparsity._layer_flows import flow_of
from keras_bayesdrop.sparsity._layer_flows import width


def shrink(model: Any) -> keras.Model:
    """Returns a copy of a plain model without channels of no effect.

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
    flow_at = dict(zip(map(id, graph.nodes), flows, strict=True))

    def replace(node: Node) -> list[Replacement]:
        name = names.take(node.operation, node.path)
        channels = _channels(node, removed, constants)
        smaller = flow_at[id(node)].replacement(name, channels)
        return [smaller or copy_layer(node.operation, name, {})]

    return rebuild(model, graph, names, replace)


def _channels(
    node: Node, removed: list[BoolArray], constants: list[Float64Array]
) -> CallChannels:
    return CallChannels(
        [removed[n] for n in node.inputs],
        [removed[n] for n in node.outputs],
        [constants[n] for n in node.inputs],
    )


def _constants(graph: Graph, flows: list[Flow]) -> list[Float64Array]:
    """Returns the constants of each value, NaN for channels that vary."""
    constants = [np.full(width(spec), np.nan) for spec in graph.specs]
    for node, flow in zip(graph.nodes, flows, strict=True):
        outputs = flow.constants([constants[n] for n in node.inputs])
        for number, values in zip(node.outputs, outputs, strict=True):
            constants[number] = values
    return constants


def _removed(
    graph: Graph, flows: list[Flow], constants: list[Float64Array]
) -> list[BoolArray]:
    """Returns the removed channels of each value."""
    removed = [np.ones(width(spec), bool) for spec in graph.specs]
    for number in (*graph.inputs, *graph.outputs):
        removed[number][:] = False
    while True:
        before = sum(int(each.sum()) for each in removed)
        for node, flow in zip(
            reversed(graph.nodes), reversed(flows), strict=True
        ):
            flow.limit(_channels(node, removed, constants))
        if sum(int(each.sum()) for each in removed) < before:
            continue
        empty = [each for each in removed if each.size and each.all()]
        if not empty:
            return removed
        empty[0][0] = False  # Keras has no layer without units.
