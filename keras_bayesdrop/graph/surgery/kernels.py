# SPDX-License-Identifier: Apache-2.0
"""Finds the kernels of a model, and the weights of them to keep."""

import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers.sources import SparseSource

BoolArray = npt.NDArray[np.bool_]

# Which weights of a kernel to keep, by the `id` of the layer.
KernelMasks = Mapping[int, BoolArray]

# Plain layers with one kernel.
KERNEL_LAYERS = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
    keras.layers.DepthwiseConv1D,
    keras.layers.DepthwiseConv2D,
)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The kernel of one layer.

    Attributes:
        path: Names from the model down to the layer, joined by `/`.
        layer: The layer.
        mean: The kernel, or the means of a kernel with noise.
        log_alpha: Log alpha of each weight of a kernel with noise, else
            `None`.
    """

    path: str
    layer: Any
    mean: npt.NDArray[Any]
    log_alpha: npt.NDArray[Any] | None

    def kept(self, threshold: float) -> BoolArray:
        """Returns the mask of the weights to keep.

        Args:
            threshold: Weights with noise are kept up to this log alpha. Plain
                weights are kept if they are not zero.

        Returns:
            Array in the shape of the kernel.
        """
        if self.log_alpha is None:
            return np.asarray(self.mean != 0)
        return np.asarray(self.log_alpha <= threshold)


def find_kernels(model: Any) -> list[Kernel]:
    """Returns every kernel of a model once, under the first of its paths.

    Args:
        model: A built Keras model of any kind.

    Returns:
        The kernels in the order of the layers.
    """
    kernels: dict[int, Kernel] = {}
    for path, layer in layers_by_path(model):
        if id(layer) not in kernels:
            kernel = _kernel_of(path, layer)
            if kernel is not None:
                kernels[id(layer)] = kernel
    return list(kernels.values())


def layers_by_path(layer: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the layers below `layer` with their paths.

    A layer that several others own has several paths.
    """
    for child in private_keras.sublayers(layer):
        inside = f"{path}/{child.name}" if path else child.name
        yield inside, child
        yield from layers_by_path(child, inside)


def _kernel_of(path: str, layer: Any) -> Kernel | None:
    if not getattr(layer, "built", False):
        return None
    if isinstance(layer, SparseSource):
        mean = as_array(layer.mean_kernel())
        log_alpha = as_array(layer.log_alpha())
        if np.isnan(log_alpha).any() or not np.isfinite(mean).all():
            raise BayesdropError(
                f"The weights of layer `{path}` are not finite. Expected "
                "finite means, and no log alpha that is NaN. Received: "
                f"{int(np.isnan(log_alpha).sum())} log alpha that are NaN and "
                f"{int((~np.isfinite(mean)).sum())} means that are not finite"
            )
        return Kernel(path, layer, mean, np.broadcast_to(log_alpha, mean.shape))
    if isinstance(layer, KERNEL_LAYERS):
        return Kernel(path, layer, as_array(layer.kernel), None)
    return None


def as_array(tensor: Any) -> npt.NDArray[Any]:
    """Returns a tensor or variable as an array, in float32 or better."""
    array = np.asarray(keras.ops.convert_to_numpy(tensor))
    if array.dtype.itemsize < 4 or array.dtype.kind != "f":
        return array.astype(np.float32)
    return array
