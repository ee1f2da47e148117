# SPDX-License-Identifier: Apache-2.0
"""Sizes of sparse models."""

import keras
import numpy as np
import pytest
import scipy.sparse

from keras_bayesdrop.sparsity import SparseSize
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity import to_sparse_size
from keras_bayesdrop.sparsity._size import csr_bytes
from tests.sparsity import architectures
from tests.sparsity.fakes import model_and_answer

layers = keras.layers


@pytest.mark.parametrize(
    ("columns", "index"),
    [(3, "uint8"), (256, "uint8"), (257, "uint16"), (65537, "uint32")],
)
def test_bytes_are_those_of_scipy(columns, index):
    rng = np.random.default_rng(0)
    kept = rng.uniform(size=(2, 3, columns)) < 0.1
    matrix = scipy.sparse.csr_matrix(kept.reshape(6, columns))
    wanted = (
        matrix.data.astype("float32").nbytes
        + matrix.indices.astype(index).nbytes
        + matrix.indptr.astype("uint32").nbytes
    )
    assert csr_bytes(kept, 4) == wanted


def test_each_kernel_in_its_smaller_form():
    model = keras.Sequential(
        [
            keras.Input((10,)),
            layers.Dense(20),
            layers.BatchNormalization(),
            layers.Dense(2),
        ]
    )
    first, norm, last = model.layers
    kernel = np.zeros((10, 20))
    kernel[0, :3] = 1
    first.kernel.assign(kernel)
    last.kernel.assign(np.ones((20, 2)))
    biases = 4 * (20 + 2) + 4 * 4 * 20
    dense = 4 * (200 + 40) + biases
    # Three weights with an index of one byte, and eleven row pointers.
    sparse = 3 * (4 + 1) + 11 * 4 + 4 * 40 + biases
    size = to_sparse_size(model)
    assert size == SparseSize(dense, sparse)
    assert size.ratio == dense / sparse
    assert dense == 4 * model.count_params()
    assert norm.built


def test_variational_layers_count_as_what_they_become():
    for name in ("sequential", "images", "wrapped", "nested_twice"):
        model, answer = model_and_answer(architectures.ALL[name])
        size = to_sparse_size(model)
        assert size == to_sparse_size(prune(model)) == to_sparse_size(answer)
        assert size.dense_bytes == 4 * answer.count_params()
    # With nothing removed, all kernels are dense.
    size = to_sparse_size(model, threshold=50.0)
    assert size == SparseSize(size.dense_bytes, size.dense_bytes)


def test_weights_of_another_type():
    dense = keras.Sequential(
        [keras.Input((10,)), layers.Dense(300, dtype="float16")]
    )
    dense.layers[0].kernel.assign(np.zeros((10, 300)))
    size = to_sparse_size(dense)
    assert size == SparseSize(2 * 3300, 11 * 4 + 2 * 300)


def test_a_model_without_weights():
    model = keras.Sequential([keras.Input((2,)), layers.ReLU()])
    assert to_sparse_size(model).ratio == 1.0
