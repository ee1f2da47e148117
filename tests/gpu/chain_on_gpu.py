# SPDX-License-Identifier: Apache-2.0
"""Runs of the compiled op on a GPU, and the parameters of its tests."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.engines import chain_cases as chain

DEVICE = "GPU:0"
EPS = {
    "tf32": 2.0**-10,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
TF32_OFF_AND_ON = pytest.mark.parametrize(
    "tf32", [False, True], ids=["float32", "tf32"], indirect=True
)
ALL_MASKS = pytest.mark.parametrize("masks", chain.MASKS)
SIZES = (
    (1, 1),
    (1, 59, 1),
    (3, 97, 59),
    (59, 1, 97),
    (97, 1025, 3),
    (1025, 59),
    (784, 300, 128, 10),
)


def run(x, layers, block=None, /, device=None, **changes):
    """Runs the op on a device, the GPU unless told: [samples, rows, ...]."""
    device = device or DEVICE
    with tf.device(device):
        y = chain.call(chain.arguments(x, layers, block, **changes))
    assert y.device.endswith(device), y.device
    return y.numpy()


def errors(x, layers, block, where=None):
    """Returns errors of the op and the reference, both on the GPU."""
    value, _ = chain.exact(x, layers, block)
    unit = np.finfo(x.dtype).eps * max(np.abs(value).max(), 1e-30)
    with tf.device(DEVICE):
        theirs = chain.reference(x, layers, block)
    where = slice(None) if where is None else where
    return tuple(
        np.abs(each - value)[where].max() / unit
        for each in (run(x, layers, block), theirs)
    )


def to_16_bits(value, dtype):
    """Rounds to a 16-bit number, kept in float32."""
    return np.asarray(value).astype(_numpy_type(dtype)).astype("float32")


def run_16_bits(x, layers, block, dtype):
    """Runs the op on 16-bit numbers that came in float32."""
    kind = _numpy_type(dtype)
    narrow = [changed(layer, lambda a: a.astype(kind)) for layer in layers]
    y = run(x.astype(kind), narrow, block)
    assert y.dtype == kind
    return y.astype("float32")


def changed(layer, change):
    """Returns a layer with its weights changed."""
    bias = None if layer.bias is None else change(layer.bias)
    return dataclasses.replace(layer, kernel=change(layer.kernel), bias=bias)


def _numpy_type(dtype):
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else "float16")
