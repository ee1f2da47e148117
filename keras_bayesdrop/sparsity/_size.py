# SPDX-License-Identifier: Apache-2.0
"""Estimates the bytes that the weights of a sparse model take."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop._core.validate import check_threshold
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery import BoolArray
from keras_bayesdrop.graph.surgery import find_kernels
from keras_bayesdrop.layers.sources import PlainInside
from keras_bayesdrop.layers.sources import SparseSource
from keras_bayesdrop.noise import NoiseSource
from keras_bayesdrop.noise import NoiseThenLayer
from keras_bayesdrop.noise import WeightNoiseSource

_ROW_POINTER_BYTES = 4
# Layers whose own variables describe noise, unless they have weights.
_NOISE = (NoiseSource, NoiseThenLayer, PlainInside)
_WEIGHTS = (SparseSource, WeightNoiseSource)


@dataclasses.dataclass(frozen=True, repr=False)
class SparseSize(Report):
    """Result of `to_sparse_size`; prints as a table.

    Attributes:
        dense_bytes: Bytes of all weights, with zeros.
        sparse_bytes: Bytes of all weights, each kernel in the smaller of its
            two forms.
    """

    dense_bytes: int
    sparse_bytes: int

    @property
    def ratio(self) -> float:
        """Dense bytes per sparse byte."""
        if not self.sparse_bytes:
            return 1.0
        return self.dense_bytes / self.sparse_bytes

    def _blocks(self) -> Iterator[str | Table]:
        dense, sparse = f"{self.dense_bytes:,}", f"{self.sparse_bytes:,}"
        header = ("dense bytes", "sparse bytes", "ratio")
        yield Table(header, [(dense, sparse, f"{self.ratio:.1f}")])


def to_sparse_size(model: keras.Model, threshold: float = 3.0) -> SparseSize:
    """Estimates the bytes of a model's weights if zeros are not stored.

    A kernel counts as a matrix with one row for each input and one column for
    each unit, in compressed sparse rows:

        bytes = kept * (4 + index) + 4 * (rows + 1)
        index = 1, 2 or 4, the fewest that number all columns

    or as a dense array, if that is smaller. The 4 bytes of a float32 value are
    2 or 8 for other dtypes. Biases and all other weights are dense. Further
    compression and the overhead of a file format are not included.

    Args:
        model: A built Keras model. Variational layers count as the layers
            that `prune` replaces them by.
        threshold: Finite float. Largest log alpha of a weight that is kept,
            in variational layers. Defaults to `3.0`.

    Returns:
        The two sizes and their ratio, which print as a table.

    Example:
    ```python
    to_sparse_size(prune(model)).ratio
    ```
    """
    model = check_source(model)
    threshold = check_threshold(threshold)
    dense = sparse = 0
    counted: set[int] = set()  # Variables of shared layers count once.
    for kernel in find_kernels(model):
        value = np.dtype(kernel.layer.variable_dtype).itemsize
        size = kernel.mean.size * value
        dense += size
        sparse += min(size, csr_bytes(kernel.kept(threshold), value))
        if kernel.log_alpha is None:
            counted.add(id(kernel.layer.kernel))
            continue
        # The plain layer has the kernel and the bias only.
        counted.update(map(id, kernel.layer.weights))
        if kernel.layer.use_bias:
            counted.discard(id(kernel.layer.bias))
    for layer in private_keras.all_layers(model):
        if isinstance(layer, _NOISE) and not isinstance(layer, _WEIGHTS):
            continue  # Skips its own variables; layers inside follow.
        for variable in private_keras.own_variables(layer):
            if id(variable) not in counted:
                counted.add(id(variable))
                dense += _bytes(variable)
                sparse += _bytes(variable)
    return SparseSize(dense, sparse)


def csr_bytes(kept: BoolArray, value_bytes: int) -> int:
    """Returns the bytes of a kernel in compressed sparse rows.

    Args:
        kept: Mask of the stored weights, in the shape of the kernel. The
            last axis are the columns, the others the rows.
        value_bytes: Bytes per weight.

    Returns:
        Bytes of values, column indices and row pointers.
    """
    columns: int = kept.shape[-1]
    rows: int = kept.size // columns
    index = 1 if columns <= 2**8 else 2 if columns <= 2**16 else 4
    stored = int(kept.sum()) * (value_bytes + index)
    return stored + (rows + 1) * _ROW_POINTER_BYTES


def _bytes(variable: Any) -> int:
    size: int = math.prod(variable.shape)
    return size * int(np.dtype(variable.dtype).itemsize)
