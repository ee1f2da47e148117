# SPDX-License-Identifier: Apache-2.0
"""Random models from one integer, as data that can be stored and cut down."""

import contextlib
import dataclasses
import random
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tests.fuzz.kinds import EITHER
from tests.fuzz.kinds import IMAGE
from tests.fuzz.kinds import KINDS
from tests.fuzz.kinds import REFUSED
from tests.fuzz.kinds import RIGHT
from tests.fuzz.kinds import SEQUENCE
from tests.fuzz.kinds import VECTOR
from tests.fuzz.kinds import DoesNotFitError
from tests.fuzz.kinds import Kind
from tests.fuzz.kinds import Piece
from tests.fuzz.kinds import apply_all
from tests.fuzz.kinds import kinds_in
from tests.fuzz.kinds import layers_of
from tests.fuzz.own_layers import batches
from tests.fuzz.specs import Spec

layers = keras.layers

_TOKENS = 7
_FORMS = {"vector": 3, "sequence": 4, "image": 2, "tokens": 2}
_OPAQUE = ("nested_subclassed", "time_distributed")
_CONTAINERS = [k for k in KINDS.values() if k.group == "container"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, what to predict on, and what a prediction may do.

    Attributes:
        model: The model.
        x: Its inputs: an array, or a list or dict of arrays.
        expects: `RIGHT`, `EITHER` or `REFUSED`.
        kinds: Names of the kinds of its pieces.
        per_call: Whether brute force calls the model once a sample.
        mixes_rows: Whether rows see each other.
        shares_rows: Whether Keras has one draw for all rows.
        warns: Whether a warning does, and numbers are not compared.
        fixed_rows: Whether the model takes one batch size only.
    """

    model: Any
    x: Any
    expects: str
    kinds: tuple[str, ...]
    per_call: bool
    mixes_rows: bool
    shares_rows: bool
    warns: bool
    fixed_rows: bool


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignores what Keras says of masks that get lost and of missing `build`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def spec_of(seed: int) -> Spec:
    """Draws a model that can be built, as data."""
    rng = random.Random(seed)
    while True:
        spec = _draw(rng)
        try:
            with quiet():
                _model_of(spec)
        except (DoesNotFitError, TypeError, AttributeError, ValueError):
            # Keras takes a product with a number for sparse, and some
            # operations cannot follow; a subclassed model that needs values
            # has no symbolic output.
            continue
        finally:
            keras.utils.clear_session(free_memory=False)
        if not _leaks_training(spec["pieces"]):
            return spec


def _leaks_training(pieces: list[Piece]) -> bool:
    """Returns whether Keras itself runs a layer in training mode at inference.

    A layer that calls another with `training=True` tells all that follow in
    the same call. What is right for such code of one's own is undecided.
    """
    names = {kind.name for kind in kinds_in(pieces)}
    return "scaled_in_training" in names and "HoldsAlwaysOn" in repr(pieces)


def _draw(rng: random.Random) -> Spec:
    form = _pick(rng, _FORMS)
    steps = rng.choice([3, 4])
    features = rng.choice([3, 4, 6])
    shape = {
        "vector": [features],
        "sequence": [steps, features],
        "image": [4, rng.choice([3, 4]), 3],
        "tokens": [steps],
    }[form]
    rank = 2 if form == "tokens" else len(shape)
    specials = _pick(rng, {0: 3, 1: 6, 2: 1})
    count = rng.randint(1, 4)
    pieces = [
        *[_piece(rng, "special", rank) for _ in range(specials)],
        *[
            _piece(rng, rng.choice(["noise", "plain", "plain"]), rank)
            for _ in range(count)
        ],
    ]
    if not any(kind.noise for kind in kinds_in(pieces)):
        pieces.append(_piece(rng, "noise", rank))
    rng.shuffle(pieces)
    if rng.random() < 0.45:
        pieces = _wrapped(rng, pieces, rank)
    kinds = {kind.name for kind in kinds_in(pieces)}
    model = _pick(rng, {"functional": 5, "sequential": 3, "subclassed": 2})
    plain = model == "functional" and form != "tokens"
    return {
        "form": form,
        "shape": shape,
        "steps": steps,
        "open": form in ("sequence", "tokens") and rng.random() < 0.3,
        "mask_zero": rng.random() < 0.4,
        "rows": rng.choice([4, 5]),
        "fixed_rows": model == "functional"
        and ("stateful" in kinds or rng.random() < 0.04),
        "model": model,
        "passes": rng.random() < 0.5,
        "gate": rng.choice([0.0, 0.0, 0.4]) if model == "subclassed" else 0.0,
        "inputs": rng.choice(["list", "dict"])
        if plain and rng.random() < 0.2
        else "one",
        "outputs": rng.choice(["list", "dict"])
        if model == "functional" and rng.random() < 0.2
        else "one",
        "head": rng.choice(["dense", "dense", "dense", "softmax", "none"]),
        "pieces": pieces,
        "weights": rng.randrange(1 << 30),
    }


def _pick(rng: random.Random, weights: dict[Any, float]) -> Any:
    return rng.choices(list(weights), list(weights.values()))[0]


def _piece(rng: random.Random, group: str, rank: int) -> Piece:
    """Draws a piece, most often one that fits the rank of the input."""
    ranks = {rank} if rng.random() < 0.8 else {VECTOR, SEQUENCE, IMAGE}
    fitting = {
        kind.name: kind.weight
        for kind in KINDS.values()
        if kind.group == group and ranks & set(kind.ranks)
    }
    name = _pick(rng, fitting)
    piece = {"kind": name, **KINDS[name].params(rng)}
    if name == "folded":
        piece["form"] = rng.choice(["layer", "lambda"])
        inner = ["noise", "plain", "noise"][: rng.randint(1, 3)]
        piece["inner"] = [_piece(rng, each, VECTOR) for each in inner]
    return piece


def _wrapped(rng: random.Random, pieces: list[Piece], rank: int) -> list[Piece]:
    """Puts a run of the pieces into a container."""
    first = rng.randrange(len(pieces))
    last = rng.randint(first + 1, len(pieces))
    container = rng.choice(_CONTAINERS)
    wrapped = {
        "kind": container.name,
        **container.params(rng),
        "inner": pieces[first:last],
    }
    return [*pieces[:first], wrapped, *pieces[last:]]


def build(spec: Spec) -> Case:
    """Makes the model of a spec, the same one every time."""
    keras.utils.set_random_seed(spec["weights"])
    with quiet():
        model = _model_of(spec)
    kinds = list(kinds_in(spec["pieces"]))
    own_rng = np.random.default_rng(spec["weights"])
    x = _inputs(spec, own_rng)
    # A first call builds a subclassed model, and leaves attributes in
    # recurrent cells.
    with quiet():
        model(x)
    _set_weights(model, own_rng)
    fixed = spec["fixed_rows"]
    return Case(
        model,
        x,
        _expectation(spec, kinds),
        tuple(dict.fromkeys(kind.name for kind in kinds)),
        fixed or any(kind.per_call for kind in kinds),
        any(kind.mixes_rows for kind in kinds),
        any(kind.shares_rows for kind in kinds),
        any(kind.warns for kind in kinds),
        fixed,
    )


def _expectation(spec: Spec, kinds: list[Kind]) -> str:
    """Combines what pieces allow with what they allow together."""
    expected = {kind.expects for kind in kinds}
    if REFUSED in expected:
        return REFUSED
    if EITHER in expected or _trains_behind_a_gate(spec):
        return EITHER
    return RIGHT


def _trains_behind_a_gate(spec: Spec) -> bool:
    """Returns whether an operation gates noise and uses `training` otherwise.

    It runs in training mode or not as a whole, so it may be refused.
    """

    def both(pieces: list[Piece], gate: float) -> bool:
        inside = list(kinds_in(pieces))
        gated = gate > 0 or any(kind.gated for kind in inside)
        return gated and any(kind.trains for kind in inside)

    def search(pieces: list[Piece]) -> Iterator[bool]:
        for piece in pieces:
            inner = piece.get("inner", [])
            if piece["kind"] in _OPAQUE:
                yield both(inner, piece.get("gate", 0.0))
            yield from search(inner)

    top = spec["model"] == "subclassed" and both(spec["pieces"], spec["gate"])
    return top or any(search(spec["pieces"]))


def _model_of(spec: Spec) -> Any:
    """Builds the model; a subclassed one has not been called."""
    shape = list(spec["shape"])
    if spec["open"]:
        shape[0] = None
    first: list[Any] = []
    if spec["form"] == "tokens":
        first = [layers.Embedding(_TOKENS, 4, mask_zero=spec["mask_zero"])]
    if spec["model"] == "functional":
        return _functional(spec, shape, first)
    inside = [*shape, 4] if first else shape
    members = [*first, *layers_of(spec["pieces"], inside), *_head(spec)]
    if spec["model"] == "sequential":
        return keras.Sequential([_input(spec, shape), *members])
    return batches.OwnModel(members, spec["passes"], spec["gate"])


def _functional(spec: Spec, shape: list[Any], first: list[Any]) -> Any:
    inputs = x = _input(spec, shape)
    for layer in first:
        x = layer(x)
    if spec["inputs"] != "one":
        other = _input(spec, shape)
        x = layers.Concatenate()([x, layers.Dense(3, "tanh")(other)])
        inputs = [inputs, other]
        if spec["inputs"] == "dict":
            inputs = dict(zip("ab", inputs, strict=True))
    middle = x = apply_all(spec["pieces"][:1], x)
    x = apply_all(spec["pieces"][1:], x)
    for layer in _head(spec):
        x = layer(x)
    outputs: Any = x
    if spec["outputs"] != "one":
        outputs = [x, layers.Dense(2)(middle)]
        if spec["outputs"] == "dict":
            outputs = dict(zip("pq", outputs, strict=True))
    return keras.Model(inputs, outputs)


def _input(spec: Spec, shape: list[Any]) -> Any:
    rows = spec["rows"] if spec["fixed_rows"] else None
    dtype = "int32" if spec["form"] == "tokens" else "float32"
    return keras.Input(shape, batch_size=rows, dtype=dtype)


def _head(spec: Spec) -> list[Any]:
    if spec["head"] == "none":
        return []
    softmax = "softmax" if spec["head"] == "softmax" else None
    return [layers.Dense(3, activation=softmax)]


def _inputs(spec: Spec, rng: np.random.Generator) -> Any:
    """Returns inputs of about unit size, none of them near zero."""

    def one() -> Any:
        if spec["form"] == "tokens":
            size = (spec["rows"], spec["steps"])
            x = rng.integers(1, _TOKENS, size, "int32")
            x[1, -1] = 0  # padding, where it counts as such
            return x
        size = (spec["rows"], *spec["shape"])
        x = rng.uniform(0.5, 1.5, size) * rng.choice([-1, 1], size)
        return x.astype("float32")

    if spec["inputs"] == "one":
        return one()
    both = [one(), one()]
    return (
        both if spec["inputs"] == "list" else dict(zip("ab", both, strict=True))
    )


def _set_weights(model: Any, rng: np.random.Generator) -> None:
    """Gives every weight a value that matters, statistics too."""
    for variable in model.variables:
        if not str(variable.dtype).startswith("float"):
            continue
        shape = tuple(variable.shape)
        if variable.name == "moving_variance":
            value = rng.uniform(0.5, 2.0, shape)
        elif variable.name == "gamma":
            value = rng.uniform(0.5, 1.5, shape)
        elif len(shape) < 2:
            value = 0.3 * rng.normal(size=shape)
        elif variable.name == "embeddings":
            value = rng.normal(size=shape)
        else:
            fan_in = max(1, int(np.prod(shape)) // shape[-1])
            value = rng.normal(size=shape) * 1.3 / np.sqrt(fan_in)
        variable.assign(value)
