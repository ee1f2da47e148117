# SPDX-License-Identifier: Apache-2.0
"""Dropout trained with several samples per row, as `MonteCarloModel` trains.

Rates and noise precisions are those of the paper's Table 2, and fixed. The
loss sees the precision in the units of its targets, and the kernels have the
weight decay that the derivation gives; the paper's code trains with a
precision of 10, whatever the set, and without decay (`--decay released`).

References:
    - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045), equations 10,
      15 and 17, and section 4 of the supplement.
"""

import functools

import keras

from uci.data import UciSet
from uci.dropout_loss import DropoutLoss
from uci.method import Method
from uci.network import in_units_of_y
from uci.network import network
from uci.recipe import HYPERPARAMETERS
from uci.recipe import TRAINING_SAMPLES
from uci.recipe import Recipe
from uci.recipe import by_recipe
from uci.settings import Settings

RELEASED_PRECISION = 10.0


def by_objective(objective: str) -> Method:
    """Returns the method that maximises an objective of `MonteCarloModel`."""
    return by_recipe(functools.partial(recipe, objective), hidden_layers=1)


def recipe(objective: str, uci: UciSet, settings: Settings) -> Recipe:
    """Returns what the method trains on a set."""
    rate, tau = HYPERPARAMETERS[uci.name]
    hidden = (uci.units,) * settings.hidden_layers
    widths = (uci.features, *hidden, 1)
    released = settings.decay == "released"
    loss = DropoutLoss(
        widths,
        rate,
        objective,
        TRAINING_SAMPLES,
        None if released else settings.length_scale,
    )

    def model(rows: int) -> keras.Model:
        return network(widths, rate, loss.regularizer(rows))

    return Recipe(
        model,
        loss,
        in_units_of_y,
        tau,
        {"rate": rate, "tau": tau},
        RELEASED_PRECISION if released else None,
    )
