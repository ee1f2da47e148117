# SPDX-License-Identifier: Apache-2.0
"""Noise layers of Keras and of this package."""

import random
from typing import Any

import keras

import keras_bayesdrop as kbd
from tests.fuzz.kinds.registry import IMAGE
from tests.fuzz.kinds.registry import SEQUENCE
from tests.fuzz.kinds.registry import VECTOR
from tests.fuzz.kinds.registry import Piece
from tests.fuzz.kinds.registry import kind
from tests.fuzz.kinds.registry import random_rate
from tests.fuzz.kinds.registry import rated

layers = keras.layers


@kind("dropout", rated, group="noise", noise=True, weight=4)
def _dropout(p, x):
    return layers.Dropout(p["rate"])(x)


@kind("dropout_told_to_train", rated, group="noise", noise=True, weight=0.5)
def _dropout_told_to_train(p, x):
    return layers.Dropout(p["rate"])(x, training=True)


@kind(
    "noise_shape",
    rated,
    group="noise",
    noise=True,
    ranks=(SEQUENCE, IMAGE),
)
def _noise_shape(p, x):
    ones = [1] * (len(x.shape) - 2)
    return layers.Dropout(p["rate"], noise_shape=(None, *ones, x.shape[-1]))(x)


@kind(
    "noise_shape_of_one",
    rated,
    group="noise",
    noise=True,
    weight=0.3,
    per_call=True,
    shares_rows=True,
)
def _noise_shape_of_one(p, x):
    shape = (1, *[None] * (len(x.shape) - 1))
    return layers.Dropout(p["rate"], noise_shape=shape)(x)


@kind("gaussian_dropout", rated, group="noise", noise=True)
def _gaussian_dropout(p, x):
    return layers.GaussianDropout(p["rate"])(x)


@kind("gaussian_noise", rated, group="noise", noise=True)
def _gaussian_noise(p, x):
    return layers.GaussianNoise(p["rate"])(x)


@kind("alpha_dropout", rated, group="noise", noise=True)
def _alpha_dropout(p, x):
    return layers.AlphaDropout(p["rate"])(x)


@kind(
    "spatial_dropout",
    rated,
    group="noise",
    noise=True,
    ranks=(SEQUENCE, IMAGE),
)
def _spatial_dropout(p, x):
    cls = getattr(layers, f"SpatialDropout{len(x.shape) - 2}D")
    return cls(p["rate"])(x)


@kind("mc_dropout", rated, group="noise", noise=True)
def _mc_dropout(p, x):
    return kbd.MCDropout(p["rate"])(x)


@kind("mc_gaussian_dropout", rated, group="noise", noise=True, weight=0.5)
def _mc_gaussian_dropout(p, x):
    return kbd.MCGaussianDropout(p["rate"])(x)


@kind("variational_dropout", group="noise", noise=True, weight=0.5)
def _variational_dropout(p, x):
    return kbd.layers.VariationalDropout(num_train_examples=10)(x)


@kind(
    "drop_connect",
    rated,
    group="noise",
    noise=True,
    ranks=(VECTOR,),
    weight=0.7,
    per_call=True,
    shares_rows=True,
)
def _drop_connect(p, x):
    return kbd.layers.DropConnectDense(4, p["rate"])(x)


def recurrent_params(rng: random.Random) -> Piece:
    dropout, recurrent = rng.choice([(1, 0), (0, 1), (1, 1), (1, 1)])
    return {
        "cell": rng.choice(["LSTM", "GRU", "SimpleRNN"]),
        "units": rng.choice([3, 4]),
        "dropout": dropout * random_rate(rng),
        "recurrent_dropout": recurrent * random_rate(rng),
        "sequences": rng.random() < 0.6,
        "both_ways": rng.random() < 0.3,
        "unroll": rng.random() < 0.2,
        "stacked": rng.random() < 0.15,
    }


def make_recurrent(p: Piece, x: Any, **kwargs: Any) -> Any:
    masks = {key: p[key] for key in ("dropout", "recurrent_dropout")}
    kwargs["return_sequences"] = p["sequences"]
    if p["unroll"] and None not in x.shape[1:]:
        kwargs["unroll"] = True
    if p["stacked"]:
        cls = getattr(layers, f"{p['cell']}Cell")
        cells = [cls(p["units"], **masks), cls(p["units"])]
        return layers.RNN(cells, **kwargs)
    return getattr(layers, p["cell"])(p["units"], **masks, **kwargs)


@kind(
    "recurrent",
    recurrent_params,
    group="noise",
    noise=True,
    ranks=(SEQUENCE,),
    weight=4,
)
def _recurrent_layer(p, x):
    layer = make_recurrent(p, x)
    return (layers.Bidirectional(layer) if p["both_ways"] else layer)(x)


@kind(
    "attention",
    lambda rng: {
        "rate": random_rate(rng),
        "form": rng.choice(["multi", "multi", "dot", "additive", "grouped"]),
        "causal": rng.random() < 0.3,
    },
    group="noise",
    noise=True,
    ranks=(SEQUENCE,),
    weight=3,
)
def _attention(p, x):
    causal = {"use_causal_mask": True} if p["causal"] else {}
    if p["form"] == "multi":
        layer = layers.MultiHeadAttention(2, 3, dropout=p["rate"])
        return layer(x, x, **causal)
    if p["form"] == "grouped":
        layer = layers.GroupQueryAttention(3, 4, 2, dropout=p["rate"])
        return layer(x, x)
    if p["form"] == "dot":
        return layers.Attention(dropout=p["rate"])([x, x], **causal)
    return layers.AdditiveAttention(dropout=p["rate"])([x, x])
