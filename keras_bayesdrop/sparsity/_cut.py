# SPDX-License-Identifier: Apache-2.0
"""Creates a plain model that keeps only chosen weights."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.surgery import KernelMasks
from keras_bayesdrop.graph.surgery import Replacement
from keras_bayesdrop.graph.surgery import find_kernels
from keras_bayesdrop.graph.surgery import layers_by_path
from keras_bayesdrop.graph.surgery import names_of
from keras_bayesdrop.graph.surgery import plain_replacements
from keras_bayesdrop.graph.surgery import rebuild
from keras_bayesdrop.sparsity._shrink import shrink


def cut(
    model: keras.Model,
    kept: Mapping[str, npt.NDArray[np.bool_]],
    structured: bool = False,
) -> keras.Model:
    """Returns a plain copy of a model with weights set to zero.

    The caller chooses the weights by any rule; `prune` uses this function.

    Args:
        model: A built Functional or Sequential model. Never changed.
        kept: Weights to keep, by the path of a layer: a bool array that
            broadcasts to the shape of the kernel. Other layers keep all
            weights, and biases stay.
        structured: Whether to remove units and channels that have no effect.

    Returns:
        A model of Keras' layers, with nested models opened, not compiled.
    """
    plain = plain_model(model, check_graph(model), _masks(model, kept))
    return shrink(plain) if structured else plain


def plain_model(
    model: keras.Model, graph: Graph, masks: KernelMasks
) -> keras.Model:
    """Returns a model of plain layers.

    Args:
        model: The old model.
        graph: Its graph, or a part of it.
        masks: Weights to keep; the others become zero.

    Returns:
        A model of Keras' layers, not compiled.
    """
    names = names_of(model, graph)

    def replace(node: Node) -> list[Replacement]:
        return plain_replacements(node.operation, node.path, names, masks)

    return rebuild(model, graph, names, replace)


def _masks(
    model: Any, kept: Mapping[str, npt.NDArray[np.bool_]]
) -> KernelMasks:
    """Returns the masks by the `id` of each layer."""
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
            array = array.astype(object)  # Refused below.
        if array.dtype != np.bool_:
            raise BayesdropError(
                "Invalid value for argument `kept`. Expected bool arrays that "
                f"broadcast to the kernel of each layer, {shape} for `{path}`. "
                f"Received: dtype {np.asarray(mask).dtype}, shape "
                f"{np.shape(mask)}"
            )
    return masks
