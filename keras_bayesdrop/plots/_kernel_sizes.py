# SPDX-License-Identifier: Apache-2.0
"""Sizes of the weights of models, layer by layer."""

from collections.abc import Mapping
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.graph.surgery import Kernel
from keras_bayesdrop.graph.surgery import as_array
from keras_bayesdrop.graph.surgery import find_kernels
from keras_bayesdrop.sparsity import SparseSource

# Paths of layers, and the sizes of their weights.
Layers = list[tuple[str, Float64Array]]

# Layers whose kernels are [..., outputs, inputs].
_OUTPUTS_FIRST = (
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
)


def kernel_sizes(models: Any, layers: Any) -> dict[str, Layers]:
    """Returns the sizes of weights, for each model by its name.

    Args:
        models: A built Keras model, or a dict from names to models.
        layers: Paths or positions of layers with a kernel, one or several;
            `None` for all.

    Returns:
        The same number of layers for each model. The name of a single model is
        empty.
    """
    named = dict(models) if isinstance(models, Mapping) else {"": models}
    if not named:
        raise invalid("models", models, "a model, or a dict of at least one")
    columns = {}
    for name, model in named.items():
        check_model(model)
        kernels = find_kernels(model)
        chosen = kernels if layers is None else _choose(kernels, layers)
        columns[str(name)] = [(k.path, _size(k)) for k in chosen]
    counts = {name: len(maps) for name, maps in columns.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        raise BayesdropError(
            "The models do not have the same number of layers to draw. "
            "Expected as many layers with a kernel in each, at least one, or "
            f"`layers` to choose some. Received: {counts}"
        )
    return columns


def _choose(kernels: list[Kernel], layers: Any) -> list[Kernel]:
    """Returns the kernels of the layers that the argument names."""
    several = isinstance(layers, Sequence) and not isinstance(layers, str)
    by_path = {kernel.path: kernel for kernel in kernels}
    chosen = []
    for layer in layers if several else [layers]:
        whole = isinstance(layer, Integral) and not isinstance(layer, bool)
        if isinstance(layer, str) and layer in by_path:
            chosen.append(by_path[layer])
        elif whole and -len(kernels) <= layer < len(kernels):
            chosen.append(kernels[layer])
        else:
            raise SelectionError(
                "Argument `layers` names no layer with a kernel. Expected some "
                f"of {list(by_path)}, or positions among them. Received: "
                f"{layer!r} in layers={layers!r}"
            )
    return chosen


def _size(kernel: Kernel) -> Float64Array:
    """Returns the sizes of the weights, [input units, the rest]."""
    size = np.abs(kernel.mean.astype(np.float64))
    if not np.all(np.isfinite(size)):
        raise NonFiniteError(
            f"The weights of layer `{kernel.path}` have no size. Expected "
            "finite numbers. Received: "
            f"{int(np.sum(~np.isfinite(size)))} of {size.size} that are not"
        )
    if isinstance(kernel.layer, SparseSource):
        size = np.sqrt(as_array(kernel.layer.second_moments()), dtype=float)
    axis = -2
    if isinstance(kernel.layer, _OUTPUTS_FIRST):
        axis = -1
    elif isinstance(kernel.layer, keras.layers.EinsumDense):
        axis = 0
    return np.moveaxis(size, axis, 0).reshape(size.shape[axis], -1)
