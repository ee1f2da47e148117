# SPDX-License-Identifier: Apache-2.0
"""Methods that train the networks of several splits together.

A recipe says what there is to train. The initial weights are those that Keras
draws for a model of the library's layers; the trained ones go into such a
model, and that is what predicts.
"""

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from uci.data import Array
from uci.data import Part
from uci.data import Scaling
from uci.data import UciSet
from uci.method import Method
from uci.network import TrainedNetwork
from uci.settings import Settings
from uci.together import Member
from uci.together import MemberLoss
from uci.together import Schedule
from uci.together import at_once
from uci.together import train

# The set-up of the paper, whatever the set.
USUAL = {"epochs": 4500, "samples": 500, "batch_size": 32}
TRAINING_SAMPLES = 10
# Rate of the dropout, and noise precision for `y`.
HYPERPARAMETERS = {
    "boston": (0.05, 0.20),
    "concrete": (0.005, 0.075),
    "energy": (0.005, 0.75),
    "kin8nm": (0.01, 250.0),
    "power": (0.005, 0.10),
    "wine": (0.05, 3.5),
    "yacht": (0.005, 0.75),
}


@dataclass(frozen=True)
class Recipe:
    """What a method trains.

    Attributes:
        model: Makes the Keras model for a number of training rows.
        loss: Its loss, for many at once.
        in_units_of_y: Turns trained weights into those of a network whose
            outputs are in units of `y`.
        tau: Noise precision for `y`, with which to predict.
        precision: Noise precision that the loss has, in the units of its
            targets; by default `tau` in those units.
        chosen: Hyper-parameters, for the record.
    """

    model: Callable[[int], keras.Model]
    loss: MemberLoss
    in_units_of_y: Callable[[list[Array], Scaling], list[Array]]
    tau: float
    chosen: dict[str, Any]
    precision: float | None = None

    def fit(
        self,
        parts: Sequence[Part],
        settings: Settings,
        seeds: Sequence[np.random.SeedSequence],
    ) -> list[TrainedNetwork]:
        """Trains a network for each part."""
        scalings = [Scaling.of(part) for part in parts]
        models: dict[int, keras.Model] = {}
        members: list[Member] = []
        words: list[int] = []
        for part, scaling, seed in zip(parts, scalings, seeds, strict=True):
            initial, training, masks = seed.spawn(3)
            rows = len(part.y)
            keras.utils.set_random_seed(int(initial.generate_state(1)[0]))
            models[rows] = self.model(rows)
            members.append(
                Member(
                    [v.numpy() for v in models[rows].trainable_variables],
                    scaling.scaled_x(part.x),
                    scaling.scaled_y(part.y),
                    self.precision or self.tau * scaling.y_std**2,
                    training,
                )
            )
            words.append(int(masks.generate_state(1)[0]))
        schedule = Schedule(
            settings.epochs, settings.batch_size, settings.learning_rate
        )
        return [
            TrainedNetwork(
                models[len(member.y)],
                self.in_units_of_y(weights, scaling),
                scaling,
                self.tau,
                settings.samples,
                word,
                self.chosen,
            )
            for weights, member, scaling, word in zip(
                train(self.loss, schedule, members),
                members,
                scalings,
                words,
                strict=True,
            )
        ]


def by_recipe(
    recipe: Callable[[UciSet, Settings], Recipe], hidden_layers: int
) -> Method:
    """Returns the method that trains a recipe.

    Args:
        recipe: Returns what there is to train on a set.
        hidden_layers: Hidden layers of the paper's networks.
    """

    def fit(
        parts: Sequence[Part],
        uci: UciSet,
        settings: Settings,
        seeds: Sequence[np.random.SeedSequence],
    ) -> list[TrainedNetwork]:
        return recipe(uci, settings).fit(parts, settings, seeds)

    def usual(uci: UciSet) -> dict[str, Any]:
        return {**USUAL, "hidden_layers": hidden_layers}

    return Method(fit, usual, at_once())
