# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of plots, before anything is drawn."""

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import ROW_AXES
from keras_bayesdrop.predictive import Predictive

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
# Arrays with an entry for each output, and the axis of their rows.
_OF_OUTPUTS = {
    name: axis for name, axis in ROW_AXES.items() if name != "num_samples_used"
}


def check_prediction(
    p: Any, tasks: Collection[str] | None = None, name: str = "p"
) -> Predictive:
    """Returns `p` if it is finite, has rows, and has one of the tasks."""
    if not isinstance(p, Predictive):
        expected = "a `Predictive`, as `predict_with_uncertainty` returns it"
        raise invalid(name, p, expected)
    if tasks is not None and p.task not in tasks:
        options = " or ".join(repr(task) for task in tasks)
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


def one_output(p: Predictive, output: Any) -> Predictive:
    """Returns one output of a prediction, with a mean `[rows]`.

    Args:
        p: Prediction of a regression, or binary.
        output: Number of the output, counted along the flattened axes; `None`
            if there is only one.
    """
    outputs = p.mean.size // len(p)
    if output is None:
        if outputs != 1:
            raise BayesdropError(
                "A plot shows one output. Expected a prediction with one "
                f"output, or the argument `output` from 0 to {outputs - 1}. "
                f"Received: output=None and {outputs} outputs"
            )
        output = 0
    output = check_int(output, "output", at_least=0)
    if output >= outputs:
        raise invalid("output", output, f"an integer below {outputs}")
    changes: dict[str, Any] = {
        name: array.reshape(*array.shape[: axis + 1], outputs)[..., output]
        for name, axis in _OF_OUTPUTS.items()
        if (array := getattr(p, name)) is not None
    }
    return dataclasses.replace(p, **changes)


def targets_of(p: Predictive, y: npt.ArrayLike, output: Any) -> Any:
    """Returns the targets of the output that is drawn.

    Targets `[rows]` belong to the output that is drawn; targets
    `[rows, outputs]` to all outputs.
    """
    array = as_numbers("y", y)
    if array.shape == p.mean.shape and p.mean.size > len(p):
        return array.reshape(len(p), -1)[:, output]
    return array


def check_quantity(quantity: Any) -> str:
    """Returns `quantity` if it can be drawn."""
    return check_choice(quantity, "quantity", QUANTITIES)


def uncertainty_of(p: Predictive, quantity: Any) -> Float64Array:
    """Returns the uncertainty of each row, `[rows]`: the mean over outputs."""
    values = np.asarray(getattr(p, check_quantity(quantity)), np.float64)
    return np.asarray(values.reshape(len(p), -1).mean(axis=1))


def usual_quantity(p: Predictive) -> str:
    """Returns the quantity that measures the total uncertainty of a task."""
    return "total" if p.task == "regression" else "predictive_entropy"
