# SPDX-License-Identifier: Apache-2.0
"""Pieces with other pieces inside."""

import keras

from tests.fuzz.kinds.registry import EITHER
from tests.fuzz.kinds.registry import IMAGE
from tests.fuzz.kinds.registry import SEQUENCE
from tests.fuzz.kinds.registry import DoesNotFitError
from tests.fuzz.kinds.registry import apply_all
from tests.fuzz.kinds.registry import kind
from tests.fuzz.kinds.registry import layers_of
from tests.fuzz.kinds.registry import rated
from tests.fuzz.own_layers import batches

layers = keras.layers
ops = keras.ops


@kind("residual", group="container")
def _residual(p, x):
    y = apply_all(p["inner"], x)
    if len(y.shape) != len(x.shape) or y.shape[1:-1] != x.shape[1:-1]:
        raise DoesNotFitError("residual", y.shape)
    return layers.Add()([x, layers.Dense(x.shape[-1])(y)])


@kind("nested_functional", group="container")
def _nested_functional(p, x):
    inputs = keras.Input(x.shape[1:])
    return keras.Model(inputs, apply_all(p["inner"], inputs))(x)


@kind("nested_sequential", group="container")
def _nested_sequential(p, x):
    members = layers_of(p["inner"], x.shape[1:])
    return keras.Sequential([keras.Input(x.shape[1:]), *members])(x)


@kind(
    "nested_subclassed",
    lambda rng: {
        "passes": rng.random() < 0.5,
        "gate": rng.choice([0.0, 0.0, 0.3]),
    },
    group="container",
)
def _nested_subclassed(p, x):
    members = layers_of(p["inner"], x.shape[1:])
    return batches.OwnModel(members, p["passes"], p["gate"])(x)


@kind("shared", group="container")
def _shared(p, x):
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, apply_all(p["inner"], inputs))
    return layers.Add()([model(x), model(ops.tanh(x))])


@kind("shared_layer", rated, group="noise", noise=True, weight=0.7)
def _shared_layer(p, x):
    dense = layers.Dense(x.shape[-1], activation="tanh")
    drop = layers.Dropout(p["rate"])
    return layers.Subtract()([drop(dense(drop(x))), dense(0.5 * x)])


@kind("time_distributed", group="container", ranks=(SEQUENCE,))
def _time_distributed(p, x):
    if any(piece["kind"] == "drop_connect" for piece in p["inner"]):
        # A draw of weights is one function for all steps of a sample, where
        # Keras draws at every step.
        raise DoesNotFitError("time_distributed", x.shape)
    inputs = keras.Input(x.shape[2:])
    inner = keras.Model(inputs, apply_all(p["inner"], inputs))
    return layers.TimeDistributed(inner)(x)


@kind("folded", group="special", ranks=(SEQUENCE, IMAGE), static=True, weight=2)
def _folded(p, x):
    places, size = x.shape[1:-1], x.shape[-1]
    if p.get("form") == "lambda":
        y = layers.Lambda(
            lambda t: ops.reshape(t, (-1, size)), output_shape=(size,)
        )(x)
    else:
        y = batches.Fold()(x)
    y = apply_all(p["inner"], y)
    if len(y.shape) != 2:
        raise DoesNotFitError("folded", y.shape)
    if p.get("form") == "lambda":
        width = y.shape[-1]
        return layers.Lambda(
            lambda t: ops.reshape(t, (-1, *places, width)),
            output_shape=(*places, width),
        )(y)
    return batches.Unfold(places)(y)


@kind(
    "fold_only",
    group="special",
    ranks=(SEQUENCE, IMAGE),
    static=True,
    weight=0.5,
    expects=EITHER,
)
def _fold_only(p, x):
    return batches.Fold()(x)
