# SPDX-License-Identifier: Apache-2.0
"""The pieces that random models are made of.

A piece is data: its kind, the parameters of that kind, and for containers the
pieces inside. A kind says where it fits, how to draw its parameters, how to
apply it to a symbolic tensor, and what a prediction may do with it.
"""

import dataclasses
import random
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras

import keras_bayesdrop as kbd
from tests.fuzz import own_layers as own

layers = keras.layers
ops = keras.ops

Piece = dict[str, Any]
Apply = Callable[[Piece, Any], Any]

VECTOR, SEQUENCE, IMAGE = 1, 2, 3  # axes without the batch
ANY = (VECTOR, SEQUENCE, IMAGE)

# What a prediction may do.
RIGHT = "right"  # must be right
EITHER = "right or refused"
REFUSED = "refused"  # nothing is right: must be refused


class DoesNotFitError(Exception):
    """A piece cannot follow the pieces before it."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of piece.

    Attributes:
        name: Its name.
        apply: Maps a piece and a symbolic tensor to the tensor behind it.
        params: Draws parameters.
        ranks: Axes without the batch that its input may have.
        noise: Whether it draws.
        expects: What a prediction may do.
        weight: How often it is drawn among its group.
        group: `"plain"`, `"noise"`, `"special"` or `"container"`.
        static: Whether it needs all sizes known.
        per_call: Whether brute force must call the model once a sample:
            rows share noise, or see each other.
        mixes_rows: Whether rows see each other.
        shares_rows: Whether Keras has one draw for all rows of a batch.
        trains: Whether `training` changes it, noise aside.
        gated: Whether its noise is seen in training only.
        warns: Whether a warning does instead of a refusal, and numbers are
            not compared.
    """

    name: str
    apply: Apply
    params: Callable[[random.Random], Piece]
    ranks: tuple[int, ...] = ANY
    noise: bool = False
    expects: str = RIGHT
    weight: float = 1.0
    group: str = "plain"
    static: bool = False
    per_call: bool = False
    mixes_rows: bool = False
    shares_rows: bool = False
    trains: bool = False
    gated: bool = False
    warns: bool = False


KINDS: dict[str, Kind] = {}


def _no_params(rng: random.Random) -> Piece:
    return {}


def kind(name: str, params: Any = _no_params, **kwargs: Any) -> Any:
    """Enters a function of a piece and a tensor as a kind."""

    def enter(apply: Apply) -> Apply:
        KINDS[name] = Kind(name, apply, params, **kwargs)
        return apply

    return enter


def kinds_in(pieces: list[Piece]) -> Iterator[Kind]:
    """Yields the kinds of pieces, those inside containers too."""
    for piece in pieces:
        yield KINDS[piece["kind"]]
        yield from kinds_in(piece.get("inner", []))


def apply_all(pieces: list[Piece], x: Any) -> Any:
    """Applies pieces one after the other."""
    for piece in pieces:
        x = apply_one(piece, x)
    return x


def apply_one(piece: Piece, x: Any) -> Any:
    """Applies a piece to a symbolic tensor, if it fits."""
    chosen = KINDS[piece["kind"]]
    shape = x.shape[1:]
    if len(shape) not in chosen.ranks or shape[-1] is None:
        raise DoesNotFitError(piece["kind"], x.shape)
    if None in shape and (chosen.static or len(shape) == IMAGE):
        raise DoesNotFitError(piece["kind"], x.shape)
    return chosen.apply(piece, x)


def layers_of(pieces: list[Piece], shape: Any) -> list[Any]:
    """Returns one layer a piece, for a Sequential or subclassed model.

    A piece of several layers becomes a nested model.
    """
    applied = []
    for piece in pieces:
        inputs = keras.Input(shape)
        outputs = apply_one(piece, inputs)
        last = outputs._keras_history.operation
        alone = isinstance(last, layers.Layer) and (
            [id(x) for x in last._inbound_nodes[0].input_tensors]
            == [id(inputs)]
        )
        applied.append(last if alone else keras.Model(inputs, outputs))
        shape = outputs.shape[1:]
    return applied


def _rate(rng: random.Random) -> float:
    return rng.choice([0.2, 0.3, 0.4, 0.5])


def _rated(rng: random.Random) -> Piece:
    return {"rate": _rate(rng)}


def _seeded(rng: random.Random) -> Piece:
    return {"rate": _rate(rng), "seeded": rng.random() < 0.6}


def _units(rng: random.Random) -> int:
    return rng.choice([3, 4, 5, 6])


_ACTIVATIONS = ["tanh", "gelu", "sigmoid", "leaky_relu", "elu", "relu", None]


# Plain pieces.


@kind(
    "dense",
    lambda rng: {
        "units": _units(rng),
        "activation": rng.choice(_ACTIVATIONS),
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
        "activation": rng.choice(_ACTIVATIONS),
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
    return own.ScaledInTraining()(x)


# Noise that Keras and this package make.


@kind("dropout", _rated, group="noise", noise=True, weight=4)
def _dropout(p, x):
    return layers.Dropout(p["rate"])(x)


@kind("dropout_told_to_train", _rated, group="noise", noise=True, weight=0.5)
def _dropout_told_to_train(p, x):
    return layers.Dropout(p["rate"])(x, training=True)


@kind(
    "noise_shape",
    _rated,
    group="noise",
    noise=True,
    ranks=(SEQUENCE, IMAGE),
)
def _noise_shape(p, x):
    ones = [1] * (len(x.shape) - 2)
    return layers.Dropout(p["rate"], noise_shape=(None, *ones, x.shape[-1]))(x)


@kind(
    "noise_shape_of_one",
    _rated,
    group="noise",
    noise=True,
    weight=0.3,
    per_call=True,
    shares_rows=True,
)
def _noise_shape_of_one(p, x):
    shape = (1, *[None] * (len(x.shape) - 1))
    return layers.Dropout(p["rate"], noise_shape=shape)(x)


@kind("gaussian_dropout", _rated, group="noise", noise=True)
def _gaussian_dropout(p, x):
    return layers.GaussianDropout(p["rate"])(x)


@kind("gaussian_noise", _rated, group="noise", noise=True)
def _gaussian_noise(p, x):
    return layers.GaussianNoise(p["rate"])(x)


@kind("alpha_dropout", _rated, group="noise", noise=True)
def _alpha_dropout(p, x):
    return layers.AlphaDropout(p["rate"])(x)


@kind(
    "spatial_dropout",
    _rated,
    group="noise",
    noise=True,
    ranks=(SEQUENCE, IMAGE),
)
def _spatial_dropout(p, x):
    cls = getattr(layers, f"SpatialDropout{len(x.shape) - 2}D")
    return cls(p["rate"])(x)


@kind("mc_dropout", _rated, group="noise", noise=True)
def _mc_dropout(p, x):
    return kbd.MCDropout(p["rate"])(x)


@kind("mc_gaussian_dropout", _rated, group="noise", noise=True, weight=0.5)
def _mc_gaussian_dropout(p, x):
    return kbd.MCGaussianDropout(p["rate"])(x)


@kind("variational_dropout", group="noise", noise=True, weight=0.5)
def _variational_dropout(p, x):
    return kbd.layers.VariationalDropout(num_train_examples=10)(x)


@kind(
    "drop_connect",
    _rated,
    group="noise",
    noise=True,
    ranks=(VECTOR,),
    weight=0.7,
    per_call=True,
    shares_rows=True,
)
def _drop_connect(p, x):
    return kbd.layers.DropConnectDense(4, p["rate"])(x)


def _recurrent(rng: random.Random) -> Piece:
    dropout, recurrent = rng.choice([(1, 0), (0, 1), (1, 1), (1, 1)])
    return {
        "cell": rng.choice(["LSTM", "GRU", "SimpleRNN"]),
        "units": rng.choice([3, 4]),
        "dropout": dropout * _rate(rng),
        "recurrent_dropout": recurrent * _rate(rng),
        "sequences": rng.random() < 0.6,
        "both_ways": rng.random() < 0.3,
        "unroll": rng.random() < 0.2,
        "stacked": rng.random() < 0.15,
    }


def _make_recurrent(p: Piece, x: Any, **kwargs: Any) -> Any:
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
    _recurrent,
    group="noise",
    noise=True,
    ranks=(SEQUENCE,),
    weight=4,
)
def _recurrent_layer(p, x):
    layer = _make_recurrent(p, x)
    return (layers.Bidirectional(layer) if p["both_ways"] else layer)(x)


@kind(
    "attention",
    lambda rng: {
        "rate": _rate(rng),
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


# Containers.


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
    return own.OwnModel(members, p["passes"], p["gate"])(x)


@kind("shared", group="container")
def _shared(p, x):
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, apply_all(p["inner"], inputs))
    return layers.Add()([model(x), model(ops.tanh(x))])


@kind("shared_layer", _rated, group="noise", noise=True, weight=0.7)
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
        y = own.Fold()(x)
    y = apply_all(p["inner"], y)
    if len(y.shape) != 2:
        raise DoesNotFitError("folded", y.shape)
    if p.get("form") == "lambda":
        width = y.shape[-1]
        return layers.Lambda(
            lambda t: ops.reshape(t, (-1, *places, width)),
            output_shape=(*places, width),
        )(y)
    return own.Unfold(places)(y)


@kind(
    "fold_only",
    group="special",
    ranks=(SEQUENCE, IMAGE),
    static=True,
    weight=0.5,
    expects=EITHER,
)
def _fold_only(p, x):
    return own.Fold()(x)


# Noise in code of one's own.


@kind(
    "hand_made",
    lambda rng: {**_seeded(rng), "spelling": rng.choice(list(own.SPELLINGS))},
    group="special",
    noise=True,
    weight=5,
    gated=True,
)
def _hand_made(p, x):
    return own.SPELLINGS[p["spelling"]](p["rate"], p["seeded"])(x)


@kind("own_dropout", _rated, group="special", noise=True, gated=True)
def _own_dropout(p, x):
    return own.OwnDropout(p["rate"])(x)


@kind("drop_in", _rated, group="special", noise=True, gated=True)
def _drop_in(p, x):
    return kbd.experimental.DropIn(p["rate"])(x)


@kind("two_outputs", _rated, group="special", noise=True)
def _two_outputs(p, x):
    return layers.Subtract()(list(own.TwoOutputs(p["rate"])(x)))


@kind(
    "captured_function",
    _seeded,
    group="special",
    noise=True,
    gated=True,
    expects=EITHER,
    weight=0.4,
)
def _captured_function(p, x):
    return own.ByCapturedFunction(p["rate"], p["seeded"])(x)


@kind(
    "fixed_seed",
    _rated,
    group="special",
    gated=True,
    expects=EITHER,
    per_call=True,
    weight=0.4,
)
def _fixed_seed(p, x):
    return own.ByFixedSeed(p["rate"])(x)


def _law(laws: tuple[str, ...]) -> Any:
    def params(rng: random.Random) -> Piece:
        return {
            **_seeded(rng),
            "law": rng.choice(laws),
            "gated": rng.random() < 0.75,
        }

    return params


def _apply_law(p: Piece, x: Any) -> Any:
    return own.Law(p["law"], p["gated"], rate=p["rate"], seeded=p["seeded"])(x)


_HAND_MADE = {"group": "special", "noise": True, "gated": True}
kind("law", _law(own.LAWS), weight=4, **_HAND_MADE)(_apply_law)
kind(
    "law_of_vectors",
    _law(own.LAWS_OF_VECTORS),
    ranks=(VECTOR,),
    weight=2,
    **_HAND_MADE,
)(_apply_law)
kind(
    "law_out_of_reach",
    _law(own.LAWS_OUT_OF_REACH),
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
    lambda rng: {**_rated(rng), "gated": rng.random() < 0.6},
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
        **_rated(rng),
        "draw": rng.choice(own.RAW_DRAWS),
        "gated": rng.random() < 0.7,
    },
    expects=EITHER,
    weight=1.5,
    **_HAND_MADE,
)
def _raw_tensorflow(p, x):
    return own.RawTensorFlow(p["draw"], p["gated"], rate=p["rate"])(x)


@kind(
    "numpy_noise",
    _rated,
    expects=EITHER,
    warns=True,
    weight=0.4,
    group="special",
    noise=True,
)
def _numpy_noise(p, x):
    return own.NumPyNoise(p["rate"])(x)


@kind(
    "drop_path",
    lambda rng: {
        **_seeded(rng),
        "form": rng.choice(["ConvNeXt", "hub", "two inputs"]),
    },
    weight=3,
    **_HAND_MADE,
)
def _drop_path(p, x):
    branch = layers.Dense(x.shape[-1], activation="tanh")(x)
    if p["form"] == "two inputs":
        return own.DepthOfTwo(p["rate"], p["seeded"])([x, branch])
    cls = own.ConvNeXtDepth if p["form"] == "ConvNeXt" else own.HubDropPath
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
        **_rated(rng),
        "cls": rng.choice(list(own.HOLDERS)),
        "noise": rng.choice(_NOISES),
    },
    group="special",
    noise=True,
    weight=2,
)
def _holder(p, x):
    return own.HOLDERS[p["cls"]](p["rate"], p["noise"])(x)


@kind(
    "gate",
    lambda rng: {
        **_rated(rng),
        "cls": rng.choice(list(own.GATES)),
        "noise": rng.choice(_NOISES),
    },
    weight=4,
    **_HAND_MADE,
)
def _gate(p, x):
    return own.GATES[p["cls"]](p["rate"], p["noise"])(x)


@kind("noisy_dense", _seeded, ranks=(VECTOR,), expects=EITHER, **_HAND_MADE)
def _noisy_dense(p, x):
    return own.NoisyDense(p["rate"], p["seeded"])(x)


@kind("hand_made_beside_layers", _seeded, expects=EITHER, **_HAND_MADE)
def _hand_made_beside_layers(p, x):
    return own.HandMadeBesideLayers(p["rate"], p["seeded"])(x)


@kind("draws_in_a_loop", _rated, expects=EITHER, **_HAND_MADE)
def _draws_in_a_loop(p, x):
    return own.DrawsInALoop("fori", rate=p["rate"])(x)


@kind("draws_repeatedly", _rated, **_HAND_MADE)
def _draws_repeatedly(p, x):
    return own.DrawsInALoop("python", rate=p["rate"])(x)


@kind(
    "own_cell",
    lambda rng: {
        **_rated(rng),
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
    cell = own.OwnCell(p["units"], p["rate"], p["noise"], p["on"])
    kwargs = {"return_sequences": p["sequences"]}
    if p["unroll"] and None not in x.shape[1:]:
        kwargs["unroll"] = True
    layer = layers.RNN(cell, **kwargs)
    return (layers.Bidirectional(layer) if p["both_ways"] else layer)(x)


@kind(
    "own_cell_by_hand",
    lambda rng: {
        **_rated(rng),
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
    lambda rng: {"how": rng.choice(own.MIXTURES)},
    group="special",
    per_call=True,
    mixes_rows=True,
    weight=2,
)
def _mixes_rows(p, x):
    return own.MixesRows(p["how"])(x)


@kind(
    "noise_on_weights",
    _rated,
    group="special",
    noise=True,
    per_call=True,
    shares_rows=True,
    static=True,
    weight=0.5,
)
def _noise_on_weights(p, x):
    return x + layers.Dropout(p["rate"])(own.Positions()(x))


# What must be refused.


@kind(
    "harmful",
    lambda rng: {**_rated(rng), "cls": rng.choice(list(own.HARMFUL))},
    expects=REFUSED,
    weight=1.5,
    **_HAND_MADE,
)
def _harmful(p, x):
    return own.HARMFUL[p["cls"]](p["rate"])(x)


@kind("harmful_momentum", _rated, expects=EITHER, weight=0.7, **_HAND_MADE)
def _harmful_momentum(p, x):
    return own.HarmfulMomentum(p["rate"])(x)


@kind("counts_calls", _rated, expects=EITHER, weight=0.7, **_HAND_MADE)
def _counts_calls(p, x):
    return own.CountsCalls(p["rate"])(x)


@kind(
    "stateful",
    _recurrent,
    group="special",
    noise=True,
    ranks=(SEQUENCE,),
    expects=REFUSED,
    weight=0.7,
)
def _stateful(p, x):
    if x.shape[0] is None:
        raise DoesNotFitError("stateful", x.shape)
    return _make_recurrent(p, x, stateful=True)(x)


@kind(
    "eager_only",
    _rated,
    expects=REFUSED,
    group="special",
    noise=True,
    weight=0.4,
)
def _eager_only(p, x):
    return own.EagerOnly(p["rate"])(x)
