# SPDX-License-Identifier: Apache-2.0
"""The methods, by the name they have on the command line."""

from uci import mc_dropout
from uci.method import Method
from uci.objectives import by_objective
from uci.structured import by_structure

METHODS: dict[str, Method] = {
    "mc_dropout": Method(mc_dropout.fit_each, mc_dropout.usual),
    "lower_bound": by_objective("lower_bound"),
    "importance_weighted": by_objective("importance_weighted"),
    "tail_adaptive": by_objective("tail_adaptive"),
    "ard": by_structure("ard"),
    "add": by_structure("add"),
    "ard_add": by_structure("ard_add"),
}
