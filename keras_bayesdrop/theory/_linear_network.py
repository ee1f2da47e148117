# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments that describe a linear network with dropout."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.moments.conversion import as_tensor

# Kernels by (source, target), the numbers of two layers.
Edges = dict[tuple[int, int], tf.Tensor]


def check_inputs(x: Any) -> tf.Tensor:
    """Returns inputs [rows, units] as a tensor."""
    tensor = tf.convert_to_tensor(x)
    if tensor.shape.rank != 2 or tensor.dtype not in (tf.float32, tf.float64):
        expected = "an array [rows, units] in float32 or float64"
        raise invalid("x", (tensor.dtype.name, tuple(tensor.shape)), expected)
    return tensor


def check_kernels(kernels: Any, x: tf.Tensor) -> Edges:
    """Returns the kernels by (source, target), in the dtype of `x`."""
    named = kernels
    if not isinstance(kernels, Mapping):
        named = {(n, n + 1): kernel for n, kernel in enumerate(kernels)}
    edges = {}
    for pair, kernel in named.items():
        right = isinstance(pair, tuple) and len(pair) == 2
        if not right or not 0 <= pair[0] < pair[1]:
            raise invalid("kernels", pair, "keys (source, target), ascending")
        tensor = as_tensor(kernel, x.dtype)
        if tensor.shape.rank != 2:
            shape = tuple(tensor.shape)
            raise invalid("kernels", shape, "arrays of shape [in, out]")
        edges[int(pair[0]), int(pair[1])] = tensor
    if not edges:
        raise invalid("kernels", kernels, "at least one kernel")
    return edges


def layer_sizes(edges: Edges, x: tf.Tensor) -> list[int]:
    """Returns the number of units of each layer, if all kernels fit."""
    sizes = {0: int(x.shape[1])}
    for (_, target), kernel in edges.items():
        sizes.setdefault(target, int(kernel.shape[1]))
    for layer in range(max(sizes) + 1):
        if layer not in sizes:
            raise invalid("kernels", sorted(edges), f"one to layer {layer}")
    for (source, target), kernel in edges.items():
        expected = (sizes[source], sizes[target])
        if tuple(kernel.shape) != expected:
            raise invalid(
                "kernels",
                tuple(kernel.shape),
                f"shape {expected} from layer {source} to layer {target}",
            )
    return [sizes[layer] for layer in sorted(sizes)]


def check_biases(
    biases: Sequence[Any] | None, sizes: list[int], dtype: Any
) -> list[tf.Tensor | None]:
    """Returns the bias of each layer after the input, or `None`."""
    depth = len(sizes) - 1
    if biases is None:
        return [None] * depth
    if len(biases) != depth:
        raise invalid("biases", len(biases), f"a sequence of length {depth}")
    tensors = [
        None if bias is None else as_tensor(bias, dtype) for bias in biases
    ]
    for bias, size in zip(tensors, sizes[1:], strict=True):
        if bias is not None and tuple(bias.shape) != (size,):
            raise invalid("biases", tuple(bias.shape), f"shape ({size},)")
    return tensors


def unit_factors(
    rates: Any, sizes: list[int], inverted: bool, dtype: Any
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Returns mean and variance of the factor of each unit, by layer."""
    depth = len(sizes) - 1
    if rates is None or np.isscalar(rates):
        rates = [rates] * depth
    if len(rates) != depth:
        expected = f"`None`, a float, or a sequence of length {depth}"
        raise invalid("unit_rates", rates, expected)
    return [
        _factor(rate, (size,), "unit_rates", inverted, dtype)
        for rate, size in zip(rates, sizes[:-1], strict=True)
    ]


def connection_factors(
    rates: Any, edges: Edges, inverted: bool
) -> dict[tuple[int, int], tuple[tf.Tensor, tf.Tensor]]:
    """Returns mean and variance of the factor of each weight."""
    if rates is None or np.isscalar(rates):
        rates = dict.fromkeys(edges, rates)
    elif not isinstance(rates, Mapping):
        rates = {(n, n + 1): rate for n, rate in enumerate(rates)}
    if rates.keys() != edges.keys():
        expected = "`None`, a float, or rates in a structure like `kernels`"
        raise invalid("connection_rates", rates, expected)
    return {
        pair: _factor(
            rates[pair],
            tuple(kernel.shape),
            "connection_rates",
            inverted,
            kernel.dtype,
        )
        for pair, kernel in edges.items()
    }


def _factor(
    rate: Any, shape: tuple[int, ...], name: str, inverted: bool, dtype: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and variance of a dropout factor, scaled if `inverted`."""
    drop = np.asarray(0.0 if rate is None else rate, np.float64)
    if drop.shape not in ((), shape) or not np.all((drop >= 0) & (drop <= 1)):
        expected = f"floats in [0, 1], or arrays of them of shape {shape}"
        raise invalid(name, rate, expected)
    drop = np.broadcast_to(drop, shape)
    keep = 1.0 - drop
    # At a rate of one there is nothing to scale.
    scale = 1.0 / np.where(keep > 0, keep, 1.0) if inverted else 1.0
    return (
        tf.constant(scale * keep, dtype),
        tf.constant(scale**2 * keep * drop, dtype),
    )
