# SPDX-License-Identifier: Apache-2.0
"""Brute force: plain Keras in training mode, with its statistics frozen."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.fuzz.grammar import Case
from tests.fuzz.grammar import quiet
from tests.fuzz.own_layers.holders import ScaledInTraining


def brute_force(case: Case, count: int) -> list[Any]:
    """Samples every output of a model as `model(x, training=True)` does.

    Args:
        case: The model and its inputs.
        count: Number of samples.

    Returns:
        One array an output, [count, rows, ...], float64.
    """
    with _frozen(), quiet():
        if case.per_call:
            return _one_by_one(case, count)
        return _tiled(case, count)


def _tiled(case: Case, count: int) -> list[Any]:
    """Puts samples into the batch: every row has noise of its own."""
    tiled = keras.tree.map_structure(
        lambda x: np.tile(x, (count, *[1] * (x.ndim - 1))), case.x
    )

    @tf.function(jit_compile=False, autograph=False)
    def call(x: Any) -> Any:
        return case.model(x, training=True)

    outputs = keras.tree.flatten(call(_tensors(tiled)))
    return [
        np.asarray(y, "float64").reshape(
            count, y.shape[0] // count, *y.shape[1:]
        )
        for y in outputs
    ]


def _one_by_one(case: Case, count: int) -> list[Any]:
    """Calls the model on the batch as it is, once a sample."""
    x = _tensors(case.x)
    outputs = keras.tree.flatten(case.model(x, training=False))
    specs = [tf.TensorSpec(y.shape, y.dtype) for y in outputs]

    @tf.function(jit_compile=False, autograph=False)
    def call() -> Any:
        return tf.map_fn(
            lambda _: keras.tree.flatten(case.model(x, training=True)),
            tf.range(count),
            fn_output_signature=specs,
            parallel_iterations=1,
        )

    return [np.asarray(y, "float64") for y in call()]


def _tensors(x: Any) -> Any:
    return keras.tree.map_structure(tf.convert_to_tensor, x)


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Runs what `training` changes, noise aside, as at inference."""
    cls = keras.layers.BatchNormalization
    original = cls.call

    @functools.wraps(original)
    def call(
        self: Any, inputs: Any, training: Any = None, mask: Any = None
    ) -> Any:
        return original(self, inputs, training=False, mask=mask)

    cls.call = call
    ScaledInTraining.frozen = True
    try:
        yield
    finally:
        cls.call = original
        ScaledInTraining.frozen = False
