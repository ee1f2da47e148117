# SPDX-License-Identifier: Apache-2.0
"""Noise in users' own code."""

import random
from typing import Any

import keras

import keras_bayesdrop as kbd
from tests.fuzz.kinds.registry import EITHER
from tests.fuzz.kinds.registry import SEQUENCE
from tests.fuzz.kinds.registry import VECTOR
from tests.fuzz.kinds.registry import Piece
from tests.fuzz.kinds.registry import kind
from tests.fuzz.kinds.registry import rated
from tests.fuzz.kinds.registry import seeded
from tests.fuzz.own_layers import batches
from tests.fuzz.own_layers import distributions
from tests.fuzz.own_layers import holders
from tests.fuzz.own_layers import spellings

layers = keras.layers
ops = keras.ops
_HAND_MADE = {"group": "special", "noise": True, "gated": True}


@kind(
    "hand_made",
    lambda rng: {
        **seeded(rng),
        "spelling": rng.choice(list(spellings.SPELLINGS)),
    },
    group="special",
    noise=True,
    weight=5,
    gated=True,
)
def _hand_made(p, x):
    return spellings.SPELLINGS[p["spelling"]](p["rate"], p["seeded"])(x)


@kind("own_dropout", rated, group="special", noise=True, gated=True)
def _own_dropout(p, x):
    return spellings.OwnDropout(p["rate"])(x)


@kind("drop_in", rated, group="special", noise=True, gated=True)
def _drop_in(p, x):
    return kbd.experimental.DropIn(p["rate"])(x)


@kind("two_outputs", rated, group="special", noise=True)
def _two_outputs(p, x):
    return layers.Subtract()(list(holders.TwoOutputs(p["rate"])(x)))


@kind(
    "captured_function",
    seeded,
    group="special",
    noise=True,
    gated=True,
    expects=EITHER,
    weight=0.4,
)
def _captured_function(p, x):
    return spellings.ByCapturedFunction(p["rate"], p["seeded"])(x)


@kind(
    "fixed_seed",
    rated,
    group="special",
    gated=True,
    expects=EITHER,
    per_call=True,
    weight=0.4,
)
def _fixed_seed(p, x):
    return spellings.ByFixedSeed(p["rate"])(x)


def _law(laws: tuple[str, ...]) -> Any:
    def params(rng: random.Random) -> Piece:
        return {
            **seeded(rng),
            "law": rng.choice(laws),
            "gated": rng.random() < 0.75,
        }

    return params


def _apply_law(p: Piece, x: Any) -> Any:
    return distributions.Law(
        p["law"], p["gated"], rate=p["rate"], seeded=p["seeded"]
    )(x)


kind("law", _law(distributions.LAWS), weight=4, **_HAND_MADE)(_apply_law)
kind(
    "law_of_vectors",
    _law(distributions.LAWS_OF_VECTORS),
    ranks=(VECTOR,),
    weight=2,
    **_HAND_MADE,
)(_apply_law)
kind(
    "law_out_of_reach",
    _law(distributions.LAWS_OUT_OF_REACH),
    expects=EITHER,
    per_call=True,
    **_HAND_MADE,
)(_apply_law)
kind(
    "draw_without_rows",
    _law(("without_rows",)),
    per_call=True,
    shares_rows=True,
    **_HAND_MADE,
)(_apply_law)


@kind(
    "lambda_noise",
    lambda rng: {**rated(rng), "gated": rng.random() < 0.6},
    **_HAND_MADE,
)
def _lambda_noise(p, x):
    rate = p["rate"]
    if p["gated"]:
        return layers.Lambda(
            lambda t, training=None: (
                keras.random.dropout(t, rate) if training else t
            )
        )(x)
    return layers.Lambda(
        lambda t: t + rate * keras.random.normal(ops.shape(t))
    )(x)


@kind(
    "raw_tensorflow",
    lambda rng: {
        **rated(rng),
        "draw": rng.choice(distributions.RAW_DRAWS),
        "gated": rng.random() < 0.7,
    },
    expects=EITHER,
    weight=1.5,
    **_HAND_MADE,
)
def _raw_tensorflow(p, x):
    return distributions.RawTensorFlow(p["draw"], p["gated"], rate=p["rate"])(x)


@kind(
    "numpy_noise",
    rated,
    expects=EITHER,
    warns=True,
    weight=0.4,
    group="special",
    noise=True,
)
def _numpy_noise(p, x):
    return distributions.NumPyNoise(p["rate"])(x)


@kind(
    "drop_path",
    lambda rng: {
        **seeded(rng),
        "form": rng.choice(["ConvNeXt", "hub", "two inputs"]),
    },
    weight=3,
    **_HAND_MADE,
)
def _drop_path(p, x):
    branch = layers.Dense(x.shape[-1], activation="tanh")(x)
    if p["form"] == "two inputs":
        return distributions.DepthOfTwo(p["rate"], p["seeded"])([x, branch])
    cls = (
        distributions.ConvNeXtDepth
        if p["form"] == "ConvNeXt"
        else distributions.HubDropPath
    )
    return layers.Add()([x, cls(p["rate"], p["seeded"])(branch)])


_NOISES = [
    "dropout",
    "dropout",
    "gaussian_noise",
    "gaussian_dropout",
    "alpha_dropout",
]


@kind(
    "holder",
    lambda rng: {
        **rated(rng),
        "cls": rng.choice(list(holders.HOLDERS)),
        "noise": rng.choice(_NOISES),
    },
    group="special",
    noise=True,
    weight=2,
)
def _holder(p, x):
    return holders.HOLDERS[p["cls"]](p["rate"], p["noise"])(x)


@kind(
    "gate",
    lambda rng: {
        **rated(rng),
        "cls": rng.choice(list(holders.GATES)),
        "noise": rng.choice(_NOISES),
    },
    weight=4,
    **_HAND_MADE,
)
def _gate(p, x):
    return holders.GATES[p["cls"]](p["rate"], p["noise"])(x)


@kind("noisy_dense", seeded, ranks=(VECTOR,), expects=EITHER, **_HAND_MADE)
def _noisy_dense(p, x):
    return holders.NoisyDense(p["rate"], p["seeded"])(x)


@kind("hand_made_beside_layers", seeded, expects=EITHER, **_HAND_MADE)
def _hand_made_beside_layers(p, x):
    return holders.HandMadeBesideLayers(p["rate"], p["seeded"])(x)


@kind("draws_in_a_loop", rated, expects=EITHER, **_HAND_MADE)
def _draws_in_a_loop(p, x):
    return holders.DrawsInALoop("fori", rate=p["rate"])(x)


@kind("draws_repeatedly", rated, **_HAND_MADE)
def _draws_repeatedly(p, x):
    return holders.DrawsInALoop("python", rate=p["rate"])(x)


@kind(
    "own_cell",
    lambda rng: {
        **rated(rng),
        "units": rng.choice([3, 4]),
        "noise": rng.choice(["layer", "layer", "gated layer"]),
        "on": rng.choice(["inputs", "state"]),
        "sequences": rng.random() < 0.7,
        "unroll": rng.random() < 0.2,
        "both_ways": rng.random() < 0.2,
    },
    ranks=(SEQUENCE,),
    weight=4,
    **_HAND_MADE,
)
def _own_cell(p, x):
    cell = batches.OwnCell(p["units"], p["rate"], p["noise"], p["on"])
    kwargs = {"return_sequences": p["sequences"]}
    if p["unroll"] and None not in x.shape[1:]:
        kwargs["unroll"] = True
    layer = layers.RNN(cell, **kwargs)
    return (layers.Bidirectional(layer) if p["both_ways"] else layer)(x)


@kind(
    "own_cell_by_hand",
    lambda rng: {
        **rated(rng),
        "units": rng.choice([3, 4]),
        "noise": "by hand",
        "on": rng.choice(["inputs", "state"]),
        "sequences": rng.random() < 0.7,
        "unroll": rng.random() < 0.2,
        "both_ways": False,
    },
    ranks=(SEQUENCE,),
    weight=2,
    expects=EITHER,
    **_HAND_MADE,
)
def _own_cell_by_hand(p, x):
    return _own_cell(p, x)


@kind(
    "mixes_rows",
    lambda rng: {"how": rng.choice(batches.MIXTURES)},
    group="special",
    per_call=True,
    mixes_rows=True,
    weight=2,
)
def _mixes_rows(p, x):
    return batches.MixesRows(p["how"])(x)


@kind(
    "noise_on_weights",
    rated,
    group="special",
    noise=True,
    per_call=True,
    shares_rows=True,
    static=True,
    weight=0.5,
)
def _noise_on_weights(p, x):
    return x + layers.Dropout(p["rate"])(batches.Positions()(x))
