# SPDX-License-Identifier: Apache-2.0
"""A plain Keras model without the residual blocks that it does not use."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.layers.sources import PlainInside
from keras_bayesdrop.sparsity.cut import plain_model
from keras_bayesdrop.sparsity.depth import effective_depth
from keras_bayesdrop.sparsity.depth import find_blocks


def prune_depth(model: keras.Model, threshold: float = 0.1) -> keras.Model:
    """Returns a plain Keras model without the blocks that are not in use.

    An `ADDResidual` that `effective_depth` finds to be in use becomes its
    layers and an `Add`; one that is not becomes its shortcut:

        y = x,    or    y = projection(x)

    so that the model predicts as one whose unused blocks make zeros. Of such
    a block its biases go as well, which had no part in its scale: build blocks
    of layers with `use_bias=False`, or train on after pruning. If no block is
    in use all of them go, and the shortcuts remain. Blocks without a learned
    scale stay.

    All other layers are treated as in `prune`, but that no single weight is
    removed: variational layers become layers of Keras with their means, and
    learned noise is left out. The result is saved, loaded and trained like
    any model of Keras, without this package. Nested models are opened; inputs
    and outputs keep their names, and it is not compiled.

    Args:
        model: A built Functional or Sequential model. Never changed.
        threshold: Float in `[0, 1]`, as in `effective_depth`. Defaults to
            `0.1`.

    Returns:
        A new model with weights of its own.

    Raises:
        BayesdropError: If the model has no `ADDResidual` with a learned scale.

    Example:
    ```python
    shallow = prune_depth(model)
    shallow.save("shallow.keras")
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """
    model = check_source(model)
    report = effective_depth(model, threshold)
    graph = check_graph(model)
    blocks = find_blocks(model)
    found = [each for each in report.blocks if each.path in blocks]
    if not found:
        raise BayesdropError(
            f"Model `{model.name}` has no blocks to remove. Expected an "
            "`ADDResidual` with a learned scale. Received: scales of "
            f"{[each.path for each in report.blocks]}"
        )
    unused = [blocks[each.path].add for each in found if not each.used]
    gone = {
        id(add): _Nothing(name=add.name, dtype=add.dtype_policy)
        for add in unused
    }
    return plain_model(model, _without(graph, gone), {})


class _Nothing(PlainInside, keras.layers.Identity):
    """Stands for a sum of which one term is left."""

    def plain_layers(self) -> list[keras.layers.Layer]:
        """Returns no layer."""
        return []


def _without(graph: Graph, sums: Mapping[int, Any]) -> Graph:
    """Returns a graph in which sums are their first term.

    Args:
        graph: The graph.
        sums: By the `id` of a layer that adds, the one in its place.

    Returns:
        A graph of the nodes that its outputs still need.
    """
    needed = set(graph.outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        if id(node.operation) in sums:
            node = dataclasses.replace(
                node,
                operation=sums[id(node.operation)],
                inputs=node.inputs[:1],
                fill=lambda values: ((values[0],), {}),
            )
        needed.update(node.inputs)
        nodes.append(node)
    return dataclasses.replace(graph, nodes=tuple(reversed(nodes)))
