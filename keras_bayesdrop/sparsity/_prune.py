# SPDX-License-Identifier: Apache-2.0
"""Removes weights that are noise, and residual blocks that are not in use."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_bool
from keras_bayesdrop._core.validate import check_threshold
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery import Kernel
from keras_bayesdrop.graph.surgery import find_kernels
from keras_bayesdrop.layers.sources import PlainInside
from keras_bayesdrop.sparsity._cut import cut
from keras_bayesdrop.sparsity._cut import plain_model
from keras_bayesdrop.sparsity._depth import effective_depth
from keras_bayesdrop.sparsity._depth import find_blocks


def prune(
    model: keras.Model, threshold: float = 3.0, structured: bool = False
) -> keras.Model:
    """Returns a plain Keras model without the weights that are noise.

    A variational layer becomes the Keras layer whose kernel is

        w = theta  if log alpha <= threshold,  0 otherwise

    Wrappers such as `ConcreteDropout` become the layer inside. Learned noise,
    noise that Keras does not have, and the noise of `DropConnect` layers are
    removed. `MCDropout` and the like become the Keras layers that drop in
    training only. The result is a plain Keras model: it saves, loads and trains
    without this package. Nested models are opened into one graph of layers.
    The result keeps the inputs, outputs, names, dtype policies and trainable
    flags of `model`. It is not compiled.

    With `structured=True` the model gets smaller as well. A unit or channel is
    removed if all its outgoing weights are zero, or if its output is constant,
    for example because all its incoming weights are zero. The constant is
    added to the biases of the next layers. Channels are tracked through
    `Dense`, convolutions, batch normalization, activations, dropout, pooling,
    `Flatten`, `Reshape`, merging layers and `Concatenate`. All channels stay
    before any other layer, where a constant meets zero padding, and in layers
    that are called more than once. Inputs, outputs and at least one channel of
    each layer stay.

    Args:
        model: A built Functional or Sequential model, with variational layers
            or with zeros in its kernels. Never changed.
        threshold: Finite float. Largest log alpha of a weight that is kept.
            Defaults to `3.0`.
        structured: Whether to remove units and channels that have no effect.
            Defaults to `False`.

    Returns:
        A new model with its own weights. It predicts like `model` with the
        means of the kept weights, and without noise.

    Raises:
        BayesdropError: If a variational layer would keep no weight, or if the
            model has nothing to prune.

    Example:
    ```python
    small = prune(model, structured=True)
    small.save("small.keras")
    ```

    References:
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369).
    """
    model = check_source(model)
    threshold = check_threshold(threshold)
    structured = check_bool(structured, "structured")
    check_graph(model)
    kernels = find_kernels(model)
    noisy = [kernel for kernel in kernels if kernel.log_alpha is not None]
    if not noisy and all(kernel.mean.all() for kernel in kernels):
        raise BayesdropError(
            f"Model `{model.name}` has nothing to prune. Expected variational "
            "layers, or zeros in the kernels of plain layers. Received: "
            f"{len(kernels)} kernel(s), none with either"
        )
    for kernel in noisy:
        _check_not_empty(kernel, threshold)
    return cut(model, {k.path: k.kept(threshold) for k in noisy}, structured)


def _check_not_empty(kernel: Kernel, threshold: float) -> None:
    if kernel.kept(threshold).any():
        return
    assert kernel.log_alpha is not None
    low, high = kernel.log_alpha.min(), kernel.log_alpha.max()
    raise BayesdropError(
        f"No weight of layer `{kernel.path}` would be kept. Expected a "
        f"threshold of at least {low:.4g}, the smallest log alpha of its "
        f"{kernel.mean.size} weights. Received: threshold={threshold:g}, log "
        f"alpha from {low:.4g} to {high:.4g}"
    )


def prune_depth(model: keras.Model, threshold: float = 0.1) -> keras.Model:
    """Returns a plain Keras model without the blocks that are not in use.

    An `ADDResidual` that is in use, by `effective_depth`, becomes its layers
    and an `Add`. A block that is not in use becomes its shortcut:

        y = x,    or    y = projection(x)

    The model then predicts as if the unused blocks returned zeros. The biases
    of such a block are removed as well, though they do not count in its scale:
    build blocks of layers with `use_bias=False`, or train again after pruning.
    If no block is in use, all are removed and only the shortcuts remain.
    Blocks without a learned scale stay.

    Other layers are treated as in `prune`, without removing single weights:
    variational layers become Keras layers with the means as weights, and
    learned noise is removed. The result is a plain Keras model: it saves, loads
    and trains without this package. Nested models are opened, inputs and
    outputs keep their names, and the result is not compiled.

    Args:
        model: A built Functional or Sequential model. Never changed.
        threshold: Float in `[0, 1]`, as in `effective_depth`. Defaults to
            `0.1`.

    Returns:
        A new model with its own weights.

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
    learned = [each for each in report.blocks if each.path in blocks]
    if not learned:
        raise BayesdropError(
            f"Model `{model.name}` has no blocks to remove. Expected an "
            "`ADDResidual` with a learned scale. Received: scales of "
            f"{[each.path for each in report.blocks]}"
        )
    unused = [blocks[each.path].add for each in learned if not each.used]
    removed = {
        id(add): _Nothing(name=add.name, dtype=add.dtype_policy)
        for add in unused
    }
    return plain_model(model, _without(graph, removed), {})


class _Nothing(PlainInside, keras.layers.Identity):
    """Replaces a sum that has one term left."""

    def plain_layers(self) -> list[keras.layers.Layer]:
        """Returns no layer."""
        return []


def _without(graph: Graph, sums: Mapping[int, Any]) -> Graph:
    """Replaces sums in a graph by their first term.

    Args:
        graph: The graph.
        sums: The replacement of each sum, by the `id` of the `Add` layer.

    Returns:
        A graph of the nodes that the outputs still need.
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
