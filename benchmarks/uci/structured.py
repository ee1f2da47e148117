# SPDX-License-Identifier: Apache-2.0
"""Residual networks with Gaussian weights, and priors with learned scales.

The first and the last kernel have a scale for each row (ARD). Those between,
with a skip connection beside them, have the structure that is tested. Squares
of scales have the prior IG(3, 3). The noise precision is that of the paper's
Table 2, and the loss sees it in the units of its targets.

References:
    - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045), section 5.3,
      and section 4 of the supplement.
"""

import functools

import keras

from uci.bayesian_loss import BayesianLoss
from uci.bayesian_network import bayesian_network
from uci.bayesian_network import in_units_of_y
from uci.data import UciSet
from uci.method import Method
from uci.recipe import HYPERPARAMETERS
from uci.recipe import TRAINING_SAMPLES
from uci.recipe import Recipe
from uci.recipe import by_recipe
from uci.settings import Settings


def by_structure(structure: str) -> Method:
    """Returns the method with a structure for the inner kernels."""
    return by_recipe(functools.partial(recipe, structure), hidden_layers=2)


def recipe(structure: str, uci: UciSet, settings: Settings) -> Recipe:
    """Returns what the method trains on a set."""
    _, tau = HYPERPARAMETERS[uci.name]
    widths = (uci.features, *(uci.units,) * settings.hidden_layers, 1)
    inner = (structure,) * (settings.hidden_layers - 1)
    structures = ("ard", *inner, "ard")

    def model(rows: int) -> keras.Model:
        return bayesian_network(widths, structures, rows)

    loss = BayesianLoss(widths[1:], structures, TRAINING_SAMPLES)
    return Recipe(model, loss, in_units_of_y, tau, {"tau": tau})
