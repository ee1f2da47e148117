# SPDX-License-Identifier: Apache-2.0
"""Models that the ordinary tests run.

The slice has every kind of piece at least once. What was found is kept as
data, not as a seed: a change of the grammar leaves it what it is.
"""

from typing import Any

SLICE = (
    *(0, 1, 21, 22, 57, 65, 81, 82, 105, 145, 150, 153, 164, 165, 172),
    *(174, 222, 248, 266, 278, 348, 350, 362, 401, 512, 580, 582, 592),
    *(689, 691),
)

_SHAPES = {
    "vector": [4],
    "sequence": [3, 4],
    "image": [4, 3, 3],
    "tokens": [3],
}


def _spec(
    form: str, *pieces: dict[str, Any] | str, **changes: Any
) -> dict[str, Any]:
    """Returns a plain Functional model of pieces; a name is a piece alone."""
    return {
        "form": form,
        "shape": _SHAPES[form],
        "steps": 3,
        "open": False,
        "mask_zero": False,
        "rows": 4,
        "fixed_rows": False,
        "model": "functional",
        "passes": False,
        "gate": 0.0,
        "inputs": "one",
        "outputs": "one",
        "head": "dense",
        "pieces": [
            {"kind": piece} if isinstance(piece, str) else piece
            for piece in pieces
        ],
        "weights": 5,
        **changes,
    }


def _piece(kind: str, **params: Any) -> dict[str, Any]:
    return {"kind": kind, "rate": 0.3, **params}


def _cell(**params: Any) -> dict[str, Any]:
    return _piece(
        "own_cell",
        **{
            "units": 3,
            "noise": "layer",
            "on": "inputs",
            "sequences": True,
            "unroll": False,
            "both_ways": False,
            **params,
        },
    )


def _by_hand(spelling: str) -> dict[str, Any]:
    """A hand-made draw beside a Dropout: without one it was refused."""
    piece = _piece("hand_made", spelling=spelling, seeded=True)
    return _spec("vector", piece, _DROPOUT)


def _law(law: str) -> dict[str, Any]:
    return _piece("law", law=law, seeded=True, gated=True)


_DROPOUT = _piece("dropout")
_RNN = {
    "kind": "recurrent",
    "cell": "SimpleRNN",
    "units": 4,
    "dropout": 0.4,
    "recurrent_dropout": 0.3,
    "sequences": True,
    "both_ways": False,
    "unroll": False,
    "stacked": False,
}

# What was found, and the smallest model that showed it.
FOUND: dict[str, dict[str, Any]] = {
    # Noise that was left out, without a word or with a warning.
    "gated dropout never drew": _spec(
        "vector", _piece("gate", cls="GatedBare", noise="dropout")
    ),
    "gated dropout was told by the context": _spec(
        "vector", _piece("gate", cls="GatedDeep", noise="dropout")
    ),
    "the second of two masks was gated": _spec(
        "vector", _piece("gate", cls="GatedTwice", noise="dropout")
    ),
    "a subclassed model gates its dropout": _spec(
        "vector", _DROPOUT, model="subclassed", gate=0.4
    ),
    "a draw by an attribute": _by_hand("ByAttribute"),
    "a draw by getattr": _by_hand("ByGetattr"),
    "a draw by a partial function": _by_hand("ByPartial"),
    "a draw by a helper object": _by_hand("ByHelper"),
    "a draw by an import inside the call": _by_hand("ByImportInside"),
    "a draw by the backend's function": _by_hand("ByBackend"),
    "a draw by a Lambda": _spec(
        "vector", _piece("lambda_noise", gated=True), _DROPOUT
    ),
    "one normal draw, used twice": _spec("vector", _law("normal_used_twice")),
    "two draws of one layer": _spec("vector", _law("two_draws")),
    "stochastic depth": _spec(
        "image", _piece("drop_path", form="ConvNeXt", seeded=False)
    ),
    "DropIn was exempt from the search": _spec("vector", _piece("drop_in")),
    "a gate behind a recurrent layer with dropout": _spec(
        "sequence", _RNN, model="subclassed", gate=0.4, head="none"
    ),
    "recurrent dropout in a subclassed model": _spec(
        "sequence", _RNN, model="subclassed", head="none"
    ),
    # One mask where Keras draws several.
    "one mask for all steps of a cell": _spec("sequence", _cell()),
    "one mask for all steps of a gated cell": _spec(
        "sequence", _cell(noise="gated layer", on="state")
    ),
    # Noise of one's own that was on, and did not follow the seed.
    "noise that is always on took seeds of Keras": _spec(
        "vector",
        _piece("law", law="normal_added", seeded=True, gated=False),
        _DROPOUT,
    ),
    # Batches.
    "time in the batch, undeclared": _spec(
        "sequence", {"kind": "folded", "form": "layer", "inner": [_DROPOUT]}
    ),
    "time in the batch, by a Lambda": _spec(
        "sequence",
        _DROPOUT,
        {"kind": "folded", "form": "lambda", "inner": [_DROPOUT]},
    ),
    "one mask for a batch that holds time": _spec(
        "sequence",
        {
            "kind": "folded",
            "form": "layer",
            "inner": [_piece("noise_shape_of_one")],
        },
        head="none",
    ),
    "more rows out than in": _spec("sequence", "fold_only", _DROPOUT),
    "rows centred by the batch": _spec(
        "vector", _DROPOUT, {"kind": "mixes_rows", "how": "centre"}
    ),
    "rows that see a hundredth of the others": _spec(
        "vector", _DROPOUT, {"kind": "mixes_rows", "how": "slightly"}
    ),
    "noise on a value without rows, behind other noise": _spec(
        "vector",
        _piece("mc_gaussian_dropout"),
        _piece("noise_on_weights"),
        head="none",
    ),
    "TimeDistributed over an open axis, behind noise": _spec(
        "sequence",
        _DROPOUT,
        {
            "kind": "time_distributed",
            "inner": [{"kind": "dense", "units": 3, "activation": "tanh"}],
        },
        open=True,
    ),
    "a recurrent layer in a subclassed model, open axis": _spec(
        "sequence",
        {
            "kind": "nested_subclassed",
            "passes": False,
            "gate": 0.0,
            "inner": [_RNN],
        },
        open=True,
        head="none",
    ),
    "noise in TimeDistributed, step by step where rows mix": _spec(
        "sequence",
        {
            "kind": "time_distributed",
            "inner": [_DROPOUT, _piece("alpha_dropout")],
        },
        {"kind": "mixes_rows", "how": "softmax"},
    ),
    "a mask without its length, for a recurrent layer that unrolls": _spec(
        "tokens",
        {**_RNN, "cell": "LSTM", "unroll": True},
        mask_zero=True,
    ),
    "a cell of one's own, open axis": _spec(
        "sequence", _cell(), open=True, head="none"
    ),
    # What is not noise, or not only.
    "a seed that is a number": _spec("vector", _piece("fixed_seed"), _DROPOUT),
    "training scales too": _spec(
        "vector", _piece("harmful", cls="HarmfulScale")
    ),
    "training normalises too": _spec(
        "vector", _piece("harmful", cls="HarmfulNorm")
    ),
    "training scales too, seen only where tokens are no padding": _spec(
        "tokens",
        _piece("harmful", cls="HarmfulScale"),
        _piece("attention", form="multi", causal=False),
        mask_zero=True,
        model="subclassed",
        passes=True,
        head="none",
    ),
    "dropout that is always on tells BatchNormalization to train": _spec(
        "vector",
        _piece("holder", cls="HoldsAlwaysOn", noise="dropout"),
        "batch_norm",
        model="subclassed",
    ),
    "recurrent dropout tells BatchNormalization to train": _spec(
        "sequence", _RNN, "batch_norm", model="subclassed"
    ),
    "one draw of weights for rows that mix": _spec(
        "vector",
        _piece("drop_connect"),
        {"kind": "mixes_rows", "how": "softmax"},
    ),
    "a gate behind a sum that TensorFlow fuses and cannot run": _spec(
        "vector",
        {"kind": "mixes_rows", "how": "softmax"},
        {"kind": "residual", "inner": [_DROPOUT]},
        model="subclassed",
        gate=0.4,
        head="none",
    ),
    "a layer that only training builds": _spec(
        "vector", _piece("harmful", cls="HarmfulUnbuilt")
    ),
    "a count of calls": _spec("vector", _piece("counts_calls")),
    "a layer that cannot be traced": _spec("vector", _piece("eager_only")),
}
