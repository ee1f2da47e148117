# SPDX-License-Identifier: Apache-2.0
"""Layers with concrete dropout for tests."""

import math
import pathlib

import keras
import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.layers import ConcreteDropout
from tests.helpers import flat

ROOT = pathlib.Path(__file__).resolve().parents[2]
layers = keras.layers
ENGINES = ("reference",) + (("fused",) * (not op_library.library().problem))
# Layer, shape of an input, units that have a mask of their own.
DENSE = (lambda: layers.Dense(3), (2, 7), 7)
TIME = (lambda: layers.Dense(3), (2, 4, 7), 7)
CONV_1D = (lambda: layers.Conv1D(3, 2), (2, 6, 5), 5)
CONV_2D = (lambda: layers.Conv2D(3, 2), (2, 6, 4, 5), 5)
GROUPS = (lambda: layers.Conv2D(3, 2, groups=3), (2, 6, 4, 6), 6)
CONV_3D = (lambda: layers.Conv3D(3, 2), (2, 6, 4, 3, 5), 5)
DEPTHWISE_1D = (
    lambda: layers.DepthwiseConv1D(2, depth_multiplier=2),
    (2, 6, 5),
    5,
)
DEPTHWISE_2D = (lambda: layers.DepthwiseConv2D(2), (2, 6, 4, 5), 5)
SEPARABLE_1D = (lambda: layers.SeparableConv1D(3, 2), (2, 6, 5), 5)
SEPARABLE_2D = (lambda: layers.SeparableConv2D(3, 2), (2, 6, 4, 5), 5)
# Contracted over the last axis, over two, and with a kernel for each head.
EINSUM = (
    lambda: layers.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d"),
    (2, 4, 7),
    7,
)
EINSUM_HEADS = (
    lambda: layers.EinsumDense("bthe,hed->btd", (4, 3)),
    (2, 4, 3, 5),
    15,
)
EINSUM_EACH = (
    lambda: layers.EinsumDense("...he,hed->...hd", (3, 2)),
    (2, 4, 3, 5),
    15,
)
INNER = (
    ("dense", *DENSE),
    ("time", *TIME),
    ("conv_1d", *CONV_1D),
    ("conv_2d", *CONV_2D),
    ("groups", *GROUPS),
    ("conv_3d", *CONV_3D),
    ("depthwise_1d", *DEPTHWISE_1D),
    ("depthwise_2d", *DEPTHWISE_2D),
    ("separable_1d", *SEPARABLE_1D),
    ("separable_2d", *SEPARABLE_2D),
    ("einsum", *EINSUM),
    ("einsum_heads", *EINSUM_HEADS),
    ("einsum_each", *EINSUM_EACH),
)


def logit(rate):
    return math.log(rate / (1 - rate))


def entropy(rate):
    return -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def dense_with(kernel, **kwargs):
    """Returns a built `ConcreteDropout(Dense)` of that kernel, no bias."""
    kernel = np.asarray(kernel, "float32")
    inner = layers.Dense(kernel.shape[1], use_bias=False)
    layer = ConcreteDropout(inner, **{"num_train_examples": 10, **kwargs})
    layer.build((None, kernel.shape[0]))
    inner.kernel.assign(kernel)
    return layer


def predict(model, x, **kwargs):
    settings = {"num_samples": 9, "seed": 3, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, return_samples=True, **flat(**settings)
    ).samples


def traces(model):
    """Returns how many programs were traced for a model so far."""
    return programs.made(model)
