# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of plots, before anything is drawn."""

from collections.abc import Collection
from collections.abc import Sequence
from numbers import Integral
from numbers import Real
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of
from keras_bayesdrop.predictive.observations import tasks_of
from keras_bayesdrop.predictive.outputs import one_output
from keras_bayesdrop.predictive.outputs import targets_of

# Attributes of a `Predictive` that measure uncertainty, and their labels.
QUANTITIES = {
    "predictive_entropy": "predictive entropy, nats",
    "mutual_information": "mutual information, nats",
    "expected_entropy": "expected entropy, nats",
    "variation_ratio": "variation ratio",
    "std": "standard deviation",
    "epistemic": "epistemic variance",
    "aleatoric": "aleatoric variance",
    "total": "total variance",
}


def check_prediction(
    p: Any, observations: Collection[str] | None = None, name: str = "p"
) -> Predictive:
    """Returns `p` if it is finite and has rows.

    Args:
        p: The argument.
        observations: Kinds of observation that the plot is defined for; `None`
            for all.
        name: Name of the argument, for errors.
    """
    if not isinstance(p, Predictive):
        expected = "a `Predictive`, as `predict_with_uncertainty` returns it"
        raise invalid(name, p, expected)
    if observations is not None and p.head.observation not in observations:
        options = " or ".join(map(repr, tasks_of(*observations)))
        raise BayesdropError(
            f"This plot of `{name}` is not defined for its task. Expected "
            f"task={options}. Received: task={p.task!r}"
        )
    if not p.mean.size:
        raise BayesdropError(
            f"There is nothing to draw in `{name}`. Expected at least one "
            f"row. Received: {name}.mean.shape={p.mean.shape}"
        )
    if not np.all(np.isfinite(p.mean)) or not np.all(np.isfinite(p.variance)):
        raise NonFiniteError(
            f"`{name}` cannot be drawn. Expected a finite mean and variance. "
            "Received: some that are NaN or infinite"
        )
    return p


def drawn_output(p: Predictive, y: Any, output: Any) -> tuple[Predictive, Any]:
    """Returns one output and its truth; everything if `output` is `None`."""
    if output is None:
        return p, y
    truth = None if y is None else targets_of(p, y, output)
    return one_output(p, output), truth


def check_quantity(quantity: Any) -> str:
    """Returns `quantity` if it can be drawn."""
    return check_choice(quantity, "quantity", QUANTITIES)


def uncertainty_of(p: Predictive, quantity: Any) -> Float64Array:
    """Returns the uncertainty of each row, `[rows]`: the mean over outputs."""
    values = np.asarray(getattr(p, check_quantity(quantity)), np.float64)
    return np.asarray(values.reshape(len(p), -1).mean(axis=1))


def usual_quantity(p: Predictive) -> str:
    """Returns the name of the quantity that measures all uncertainty."""
    return observation_of(p).total


def wide_first(levels: Any) -> list[float]:
    """Returns the levels of bands, the largest first."""
    checked = check_levels(levels, "levels")
    if checked is None or not all(0 < level < 1 for level in checked):
        raise invalid("levels", levels, "a sequence of floats in (0, 1)")
    return sorted(checked, reverse=True)


def check_names(entries: Any, name: str, count: int, what: str) -> list[str]:
    """Returns a text for each class or row."""
    if entries is None:
        return [str(number) for number in range(count)]
    if isinstance(entries, str) or not isinstance(
        entries, (Sequence, np.ndarray)
    ):
        raise invalid(
            name, entries, f"a sequence with one entry for each {what}"
        )
    if len(entries) != count:
        raise BayesdropError(
            f"Invalid length of argument `{name}`. Expected {count} entries, "
            f"one for each {what}. Received: {len(entries)} entries"
        )
    return [_text(each, name) for each in entries]


def _text(entry: Any, name: str) -> str:
    """Returns a text, or a number without trailing digits."""
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, Real):
        raise BayesdropError(
            f"Invalid entry of argument `{name}`. Expected texts or numbers. "
            f"Received: {entry!r}"
        )
    return str(entry) if isinstance(entry, Integral) else f"{entry:g}"
