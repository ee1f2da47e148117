# SPDX-License-Identifier: Apache-2.0
"""Matches losses, weights and targets to the outputs of a model."""

import dataclasses
import math
from numbers import Real
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The outputs of a model, by name.

    Attributes:
        names: Name of each output, in the order of the flat outputs.
    """

    names: tuple[str, ...]

    def losses(self, losses: Any) -> list[Any]:
        """Returns a loss per output, or `None` for an output without one."""
        if isinstance(losses, dict):
            self._check_keys(losses, "loss", all_of_them=False)
            return [losses.get(name) for name in self.names]
        if isinstance(losses, (list, tuple)):
            return self._in_order(losses, "loss")
        return [losses] * len(self.names)

    def weights(self, loss_weights: Any) -> list[float]:
        """Returns the weight of the loss of each output."""
        if loss_weights is None:
            return [1.0] * len(self.names)
        if isinstance(loss_weights, dict):
            self._check_keys(loss_weights, "loss_weights", all_of_them=False)
            weights = [loss_weights.get(name, 1.0) for name in self.names]
        elif isinstance(loss_weights, (list, tuple)):
            weights = self._in_order(loss_weights, "loss_weights")
        else:
            weights = [loss_weights] * len(self.names)
        for weight in weights:
            real = isinstance(weight, Real)
            if not real or not 0.0 <= float(weight) < math.inf:
                raise invalid(
                    "loss_weights",
                    loss_weights,
                    "floats of at least 0, one or one per output",
                )
        return [float(weight) for weight in weights]

    def targets(self, values: Any, argument: str) -> list[Any]:
        """Returns the targets, or sample weights, of each output."""
        if values is None:
            raise BayesdropError(
                f"`{argument}` is missing. Expected targets for "
                f"{list(self.names)}. Received: None"
            )
        if isinstance(values, dict):
            self._check_keys(values, argument, all_of_them=True)
            return [values[name] for name in self.names]
        if isinstance(values, (list, tuple)):
            return self._in_order(values, argument)
        return self._in_order([values], argument)

    def _in_order(self, values: Any, argument: str) -> list[Any]:
        if len(values) != len(self.names):
            raise BayesdropError(
                f"`{argument}` does not fit the outputs of the model. Expected "
                f"one entry for each of {list(self.names)}. Received: "
                f"{len(values)} entries"
            )
        return list(values)

    def _check_keys(
        self, values: Any, argument: str, all_of_them: bool
    ) -> None:
        unknown = set(values) - set(self.names)
        missing = set(self.names) - set(values) if all_of_them else ()
        if unknown or missing:
            raise BayesdropError(
                f"`{argument}` does not fit the outputs of the model. Expected "
                f"the keys {list(self.names)}. Received: {list(values)}"
            )


def outputs_of(model: Any) -> Outputs:
    """Returns the outputs of a Functional model.

    Outputs in a dict have the names of their keys, others those of their
    layers.
    """
    structure = private_keras.outputs_structure(model)
    if isinstance(structure, dict):
        paths = keras.tree.flatten(
            keras.tree.pack_sequence_as(structure, sorted(structure))
        )
        return Outputs(tuple(str(path) for path in paths))
    return Outputs(tuple(model.output_names))
