# SPDX-License-Identifier: Apache-2.0
"""Residual blocks for tests."""

import keras
import numpy as np

from keras_bayesdrop.layers import ADDResidual

layers = keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def learned(*block, **settings):
    """A block with a half-Cauchy scale, for 10 examples."""
    return ADDResidual(list(block), "half_cauchy", 10, **settings)


def drawn(*block, **settings):
    return ADDResidual(list(block), mode="noise", **settings)


def as_one(kernels):
    """All weights of kernels, in a row."""
    return np.concatenate([np.ravel(kernel) for kernel in kernels])


class Probe(layers.Layer):
    """Returns the mask that reached it, and ones without one."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is None:
            return keras.ops.ones_like(inputs[..., 0])
        return keras.ops.cast(mask, "float32")
