# SPDX-License-Identifier: Apache-2.0
"""A plain model in which only chosen weights are left."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.surgery.copies import Masks
from keras_bayesdrop.graph.surgery.copies import Part
from keras_bayesdrop.graph.surgery.kernels import find_kernels
from keras_bayesdrop.graph.surgery.kernels import layers_by_path
from keras_bayesdrop.graph.surgery.plain import plain_parts
from keras_bayesdrop.graph.surgery.rebuild import names_of
from keras_bayesdrop.graph.surgery.rebuild import rebuild
from keras_bayesdrop.sparsity.shrink import shrink


def cut(
    model: keras.Model,
    kept: Mapping[str, npt.NDArray[np.bool_]],
    structured: bool = False,
) -> keras.Model:
    """Returns a plain copy of a model with weights set to zero.

    Any rule may choose the weights: this is what `prune` does with those of
    its own.

    Args:
        model: A built Functional or Sequential model. Never changed.
        kept: By the path of a layer, which weights of its kernel are kept: a
            bool array that broadcasts to the shape of the kernel. Layers that
            are not named keep all weights, and biases stay.
        structured: Whether units and channels that do nothing are removed.

    Returns:
        A model of Keras' own layers, nested models opened, not compiled.
    """
    plain = plain_model(model, check_graph(model), _masks(model, kept))
    return shrink(plain) if structured else plain


def plain_model(model: keras.Model, graph: Graph, masks: Masks) -> keras.Model:
    """Returns a model of plain layers in a graph.

    Args:
        model: The old model.
        graph: Its graph, or what of it is left.
        masks: Weights to keep; the others become zero.

    Returns:
        A model of Keras' own layers, not compiled.
    """
    names = names_of(model, graph)
    done: dict[int, list[Part]] = {}

    def parts_of(node: Node) -> list[Part]:
        key = id(node.operation)
        if key not in done:
            done[key] = plain_parts(node.operation, node.path, names, masks)
        return done[key]

    return rebuild(model, graph, names, parts_of)


def _masks(model: Any, kept: Mapping[str, npt.NDArray[np.bool_]]) -> Masks:
    """Returns the masks by the `id` of the layer."""
    layers = dict(layers_by_path(model))
    kernels = {id(kernel.layer): kernel for kernel in find_kernels(model)}
    masks = {}
    for path, mask in kept.items():
        kernel = kernels.get(id(layers.get(path)))
        if kernel is None:
            known = [each.path for each in kernels.values()]
            raise BayesdropError(
                "Invalid value for argument `kept`. Expected paths of layers "
                f"that have a kernel: {known}. Received: {path!r}"
            )
        array = np.asarray(mask)
        shape = kernel.mean.shape
        try:
            masks[id(kernel.layer)] = np.broadcast_to(array, shape)
        except ValueError:
            array = array.astype(object)  # So that it is refused below.
        if array.dtype != np.bool_:
            raise BayesdropError(
                "Invalid value for argument `kept`. Expected bool arrays that "
                f"broadcast to the kernel of each layer, {shape} for `{path}`. "
                f"Received: dtype {np.asarray(mask).dtype}, shape "
                f"{np.shape(mask)}"
            )
    return masks
