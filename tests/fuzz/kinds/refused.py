# SPDX-License-Identifier: Apache-2.0
"""Pieces that a prediction must refuse."""

from tests.fuzz.kinds.noise import make_recurrent
from tests.fuzz.kinds.noise import recurrent_params
from tests.fuzz.kinds.registry import EITHER
from tests.fuzz.kinds.registry import REFUSED
from tests.fuzz.kinds.registry import SEQUENCE
from tests.fuzz.kinds.registry import DoesNotFitError
from tests.fuzz.kinds.registry import kind
from tests.fuzz.kinds.registry import rated
from tests.fuzz.own_layers import holders

_HAND_MADE = {"group": "special", "noise": True, "gated": True}


@kind(
    "harmful",
    lambda rng: {**rated(rng), "cls": rng.choice(list(holders.HARMFUL))},
    expects=REFUSED,
    weight=1.5,
    **_HAND_MADE,
)
def _harmful(p, x):
    return holders.HARMFUL[p["cls"]](p["rate"])(x)


@kind("harmful_momentum", rated, expects=EITHER, weight=0.7, **_HAND_MADE)
def _harmful_momentum(p, x):
    return holders.HarmfulMomentum(p["rate"])(x)


@kind("counts_calls", rated, expects=EITHER, weight=0.7, **_HAND_MADE)
def _counts_calls(p, x):
    return holders.CountsCalls(p["rate"])(x)


@kind(
    "stateful",
    recurrent_params,
    group="special",
    noise=True,
    ranks=(SEQUENCE,),
    expects=REFUSED,
    weight=0.7,
)
def _stateful(p, x):
    if x.shape[0] is None:
        raise DoesNotFitError("stateful", x.shape)
    return make_recurrent(p, x, stateful=True)(x)


@kind(
    "eager_only",
    rated,
    expects=REFUSED,
    group="special",
    noise=True,
    weight=0.4,
)
def _eager_only(p, x):
    return holders.EagerOnly(p["rate"])(x)
