# SPDX-License-Identifier: Apache-2.0
"""Kinds of pieces: where each fits, how it is drawn and applied.

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

layers = keras.layers

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


def random_rate(rng: random.Random) -> float:
    return rng.choice([0.2, 0.3, 0.4, 0.5])


def rated(rng: random.Random) -> Piece:
    return {"rate": random_rate(rng)}


def seeded(rng: random.Random) -> Piece:
    return {"rate": random_rate(rng), "seeded": rng.random() < 0.6}


def random_units(rng: random.Random) -> int:
    return rng.choice([3, 4, 5, 6])


ACTIVATIONS = ["tanh", "gelu", "sigmoid", "leaky_relu", "elu", "relu", None]
