# SPDX-License-Identifier: Apache-2.0
"""Pieces without noise."""

import keras

from tests.fuzz.kinds.registry import ACTIVATIONS
from tests.fuzz.kinds.registry import IMAGE
from tests.fuzz.kinds.registry import SEQUENCE
from tests.fuzz.kinds.registry import DoesNotFitError
from tests.fuzz.kinds.registry import kind
from tests.fuzz.kinds.registry import random_units
from tests.fuzz.own_layers import holders

layers = keras.layers
ops = keras.ops


@kind(
    "dense",
    lambda rng: {
        "units": random_units(rng),
        "activation": rng.choice(ACTIVATIONS),
    },
    weight=3,
)
def _dense(p, x):
    return layers.Dense(p["units"], activation=p["activation"])(x)


@kind(
    "conv",
    lambda rng: {
        "units": rng.choice([3, 4]),
        "size": rng.choice([1, 2, 3]),
        "activation": rng.choice(ACTIVATIONS),
        "form": rng.choice(["plain", "separable", "depthwise"]),
    },
    ranks=(SEQUENCE, IMAGE),
    weight=3,
)
def _conv(p, x):
    two = len(x.shape) == 4
    same = {"padding": "same", "activation": p["activation"]}
    if p["form"] == "separable":
        cls = layers.SeparableConv2D if two else layers.SeparableConv1D
        return cls(p["units"], p["size"], **same)(x)
    if p["form"] == "depthwise":
        cls = layers.DepthwiseConv2D if two else layers.DepthwiseConv1D
        return cls(p["size"], **same)(x)
    cls = layers.Conv2D if two else layers.Conv1D
    return cls(p["units"], p["size"], **same)(x)


@kind("batch_norm", weight=1.5, trains=True)
def _batch_norm(p, x):
    return layers.BatchNormalization()(x)


@kind("batch_norm_told_to_train", weight=0.3, trains=True)
def _batch_norm_told_to_train(p, x):
    return layers.BatchNormalization()(x, training=True)


@kind("layer_norm")
def _layer_norm(p, x):
    return layers.LayerNormalization()(x)


@kind(
    "activation",
    lambda rng: {"name": rng.choice(["tanh", "gelu", "softmax", "relu"])},
)
def _activation(p, x):
    return layers.Activation(p["name"])(x)


@kind("flatten", ranks=(SEQUENCE, IMAGE), static=True)
def _flatten(p, x):
    return layers.Flatten()(x)


@kind("reshape", static=True)
def _reshape(p, x):
    if len(x.shape) == 2:
        if x.shape[1] % 2:
            raise DoesNotFitError("reshape", x.shape)
        return layers.Reshape((x.shape[1] // 2, 2))(x)
    return layers.Reshape((-1, x.shape[-1]))(x)


@kind(
    "global_pool",
    lambda rng: {"how": rng.choice(["Average", "Max"])},
    ranks=(SEQUENCE, IMAGE),
)
def _global_pool(p, x):
    cls = getattr(layers, f"Global{p['how']}Pooling{len(x.shape) - 2}D")
    return cls()(x)


@kind(
    "pool",
    lambda rng: {"how": rng.choice(["Average", "Max"])},
    ranks=(SEQUENCE, IMAGE),
)
def _pool(p, x):
    cls = getattr(layers, f"{p['how']}Pooling{len(x.shape) - 2}D")
    return cls(2, padding="same")(x)


@kind("lambda", lambda rng: {"number": rng.randrange(3)})
def _lambda(p, x):
    functions = [
        lambda t: 2.0 * t,
        lambda t: ops.concatenate([t, ops.square(t)], axis=-1),
        lambda t: t - ops.mean(t, axis=-1, keepdims=True),
    ]
    return layers.Lambda(functions[p["number"]])(x)


@kind("operations")
def _operations(p, x):
    return ops.tanh(x * 1.5) + 0.1 * ops.square(x)


@kind("multiply")
def _multiply(p, x):
    gate = layers.Dense(x.shape[-1], activation="sigmoid")(x)
    return layers.Multiply()([x, gate])


@kind("concatenate")
def _concatenate(p, x):
    return layers.Concatenate()([x, layers.Dense(3, activation="tanh")(x)])


@kind("scaled_in_training", weight=0.4, trains=True)
def _scaled_in_training(p, x):
    return holders.ScaledInTraining()(x)
