# SPDX-License-Identifier: Apache-2.0
"""Enumerates all masks of small linear networks."""

import itertools

import numpy as np
import tensorflow as tf


def all_masks(rates):
    """Masks [2^n, n] of n independent draws, and their probabilities."""
    rates = np.ravel(rates)
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=len(rates))))
    chances = np.prod(np.where(masks, 1 - rates, rates), axis=1)
    np.testing.assert_allclose(chances.sum(), 1.0, rtol=1e-12)
    return masks, chances


def run_all(x, kernels, units=None, connections=None, biases=None, scale=True):
    """Outputs of every layer for every mask, and the masks' probabilities.

    Args:
        x: Array [units], one row.
        kernels: By (source, target). May be tensors.
        units: By layer, rates [units].
        connections: By (source, target), rates [in, out].
        biases: By layer, from the first after the input.
        scale: Whether kept units are scaled up.

    Returns:
        By layer, values [masks, units]; probabilities [masks].
    """
    units, connections = units or [], connections or {}
    rates = [np.ravel(r) for r in [*units, *connections.values()]]
    masks, chances = all_masks(np.concatenate(rates))
    if scale:
        keep = 1 - np.concatenate(rates)
        masks = masks / np.where(keep > 0, keep, 1.0)
    parts = np.split(masks, np.cumsum([r.size for r in rates])[:-1], axis=1)
    of_units = dict(enumerate(parts[: len(units)]))
    of_weights = dict(zip(connections, parts[len(units) :], strict=True))
    values = [tf.constant(np.tile(x, (len(masks), 1)), tf.float64)]
    for target in range(1, max(t for _, t in kernels) + 1):
        total = 0.0
        if biases is not None and biases[target - 1] is not None:
            total = biases[target - 1]
        for source in range(target):
            if (source, target) not in kernels:
                continue
            sent = values[source] * of_units.get(source, 1.0)
            kernel = kernels[source, target]
            if (source, target) in of_weights:
                shape = (-1, *kernel.shape)
                mask = of_weights[source, target].reshape(shape)
                total += tf.einsum("mi,mij->mj", sent, mask * kernel)
            else:
                total += sent @ kernel
        values.append(total)
    return values, chances


def moments_of(values, chances):
    """Mean [n] and covariance [n, n] of values [masks, n]."""
    values = np.asarray(values)
    mean = chances @ values
    centered = values - mean
    return mean, (chances[:, None] * centered).T @ centered
