# SPDX-License-Identifier: Apache-2.0
"""Dimensions of tensors: ints where they are static, else scalar tensors."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def dims_from(x: tf.Tensor, first: int) -> list[Any]:
    """Returns the dimensions of a tensor from axis `first` on."""
    static = x.shape[first:].as_list()
    if None not in static:
        return list(static)
    dynamic = tf.shape(x)
    return [
        dynamic[axis + first] if dim is None else dim
        for axis, dim in enumerate(static)
    ]


def product_of(dims: Sequence[Any]) -> Any:
    """Returns the product of dimensions."""
    if all(isinstance(dim, int) for dim in dims):
        return math.prod(dims)
    return tf.reduce_prod(tf.stack(dims))


def shape_of_dims(dims: Sequence[Any]) -> Any:
    """Returns dimensions as a shape, for `tf.reshape` and the like."""
    if all(isinstance(dim, int) for dim in dims):
        return list(dims)
    return tf.stack([tf.cast(dim, tf.int32) for dim in dims])


def first_axis_order(axis: int, rank: int) -> tuple[list[int], list[int]]:
    """Returns the permutation that moves an axis to the front, and its inverse.

    Args:
        axis: The axis.
        rank: Number of axes.
    """
    order = [axis, *(n for n in range(rank) if n != axis)]
    return order, [order.index(n) for n in range(rank)]
