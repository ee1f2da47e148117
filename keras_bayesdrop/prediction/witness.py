# SPDX-License-Identifier: Apache-2.0
"""The values of the first batch: the last witness of what an output means."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.warn import warn_user
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.decision import ADD_UP
from keras_bayesdrop.prediction.decision import IN_UNIT
from keras_bayesdrop.prediction.decision import NO_CHECK
from keras_bayesdrop.prediction.decision import NOT_CLASSES
from keras_bayesdrop.prediction.decision import Decision
from keras_bayesdrop.prediction.decision import not_probabilities
from keras_bayesdrop.prediction.sampling.output_files import by_name

# Rounding of sums of float32 probabilities is a hundred times less, even over
# 10,000 classes (10,000 * 2^-24 = 6e-4 bounds it, its root is typical).
_ROUNDING = 1e-4


def witnesses_of(
    model: Any, plan: Plan, decisions: Sequence[Decision]
) -> list["Witness"]:
    """Returns a witness for each output of a plan.

    Args:
        model: The model, for the names of its outputs.
        plan: Its plan.
        decisions: One per output.
    """
    names = by_name(model, plan.pack(list(range(len(decisions)))))
    in_order = sorted(names.items(), key=lambda pair: pair[1])
    return [
        Witness(
            name,
            decision,
            _is_active(plan, decision.noise_behind),
            max(_ROUNDING, 4.0 * _epsilon(plan.specs[value].dtype)),
        )
        for (name, _), decision, value in zip(
            in_order, decisions, plan.outputs, strict=True
        )
    ]


@dataclasses.dataclass(frozen=True)
class Witness:
    """Holds the values of one output against the decision about its head.

    Warns of a regression whose values are those of classes, and raises if an
    output that was taken for probabilities holds others.

    Attributes:
        name: Name of the output.
        decision: How it is read.
        is_noisy: Whether noise behind its last activation is on.
        slack: Most that rounding moves a sum of probabilities.
    """

    name: str
    decision: Decision
    is_noisy: bool
    slack: float

    @property
    def needs_values(self) -> bool:
        """True if the decision depends on values."""
        return self.decision.check != NO_CHECK or self.is_noisy

    def check(self, mean: Any) -> None:
        """Warns or raises if the values say otherwise.

        Args:
            mean: Mean over samples of some rows, array [rows, ...].
        """
        if not mean.size:
            return
        if self.decision.check == NOT_CLASSES:
            self._warn_of_classes(mean)
        elif self.is_noisy:
            self._check_noisy(mean)
        elif self.decision.check == ADD_UP and not (
            self._in_unit(mean) and self._adds_up(mean)
        ):
            raise self._not_probabilities(mean)
        elif self.decision.check == IN_UNIT and not self._in_unit(mean):
            raise self._not_probabilities(mean)

    def _warn_of_classes(self, mean: Any) -> None:
        if mean.ndim < 2 or mean.shape[-1] < 2 or not self._in_unit(mean):
            return
        if self._adds_up(mean):
            warn_user(
                f"Output `{self.name}` is read as a regression "
                f"({self.decision.reason}), and looks like a classification: "
                "in all rows of the first batch its values lie in [0, 1] "
                "and add up to 1. Pass head='classification' if they are "
                "probabilities, or head='regression' if they are not."
            )

    def _check_noisy(self, mean: Any) -> None:
        """Checks probabilities with noise on top."""
        path = self.decision.noise_behind
        if not self._in_unit(mean):
            if self.decision.check != NO_CHECK:
                raise self._not_probabilities(mean)
            raise BayesdropError(
                f"Noise on probabilities drives them out of [0, 1]. Expected "
                f"`{path}` before the softmax or sigmoid, `layers` that "
                "leaves it out, or head='regression'. Received: output "
                f"`{self.name}` with mean values {_span(mean)} in the first "
                "batch, head='auto'"
            )
        warn_user(
            f"The noise of `{path}` comes after the softmax or sigmoid of "
            f"output `{self.name}`, so samples are no distributions, and "
            "entropies and mutual information do not mean much. Put the noise "
            "before it, or choose `layers` that leave it out."
        )

    def _in_unit(self, mean: Any) -> bool:
        return bool(mean.min() >= -self.slack and mean.max() <= 1 + self.slack)

    def _adds_up(self, mean: Any) -> bool:
        sums = mean.sum(axis=-1, dtype=np.float64)
        return bool(np.all(np.abs(sums - 1.0) <= self.slack))

    def _not_probabilities(self, mean: Any) -> BayesdropError:
        sums = mean.sum(axis=-1, dtype=np.float64)
        return BayesdropError(
            not_probabilities(
                self.decision.require().task,
                self.decision.reason,
                f"output `{self.name}` with values {_span(mean)} and sums "
                f"{_span(sums)} in the first batch",
            )
        )


def _span(values: Any) -> str:
    return f"from {values.min():.4g} to {values.max():.4g}"


def _is_active(plan: Plan, path: str) -> bool:
    """Returns whether the noise at a path is on."""
    if not path:
        return False
    sites = [site for site in plan.sites if site.path == path]
    return not sites or any(
        site.noise.active and site.path in plan.chosen for site in sites
    )


def _epsilon(dtype: Any) -> float:
    """Returns the distance from 1 to the next number of a dtype."""
    bits = {"bfloat16": 7, "float16": 10}
    return float(2.0 ** -bits.get(keras.backend.standardize_dtype(dtype), 23))
