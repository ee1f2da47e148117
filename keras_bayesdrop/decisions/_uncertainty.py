# SPDX-License-Identifier: Apache-2.0
"""Uncertainty and loss of a prediction, one number per row."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of

QUANTITIES = (
    "expected_loss",
    "predictive_entropy",
    "expected_entropy",
    "mutual_information",
    "variation_ratio",
    "std",
    "epistemic",
    "aleatoric",
    "total",
    "mc_error",
)


def row_uncertainty(
    predictive: Predictive, by: str | npt.ArrayLike
) -> tuple[Float64Array, str]:
    """Returns an uncertainty per row, and its name.

    Args:
        predictive: The prediction.
        by: `"auto"` (which is `"expected_loss"`), another of `QUANTITIES`, or
            an array `[rows]`. A quantity with several values per row is
            averaged over them.
    """
    if not isinstance(by, str):
        return check_row_values(by, "by", len(predictive)), "given"
    check_choice(by, "by", ("auto", *QUANTITIES))
    if by in ("auto", "expected_loss"):
        return mean_per_row(expected_loss(predictive)), "expected_loss"
    values: Array = getattr(predictive, by)
    return mean_per_row(values), by


def expected_loss(predictive: Predictive) -> Array:
    """Returns the loss that a prediction expects, [rows, ...].

    classes    1 - max{ mean[c] : c }     probability of an error
    labels     min(mean, 1 - mean)        probability of an error
    numbers    epistemic + aleatoric      mean of the squared error
    """
    return observation_of(predictive).expected_loss(predictive)


def mean_per_row(values: npt.NDArray[np.generic]) -> Float64Array:
    """Returns the mean over all axes but the first."""
    numbers = values.astype(np.float64)
    return np.asarray(numbers.mean(axis=tuple(range(1, numbers.ndim))))


def check_row_values(
    values: npt.ArrayLike, name: str, rows: int
) -> Float64Array:
    """Returns finite numbers `[rows]`, or raises an error."""
    array = as_numbers(name, values).astype(np.float64)
    if array.shape != (rows,):
        raise BayesdropError(
            f"Invalid shape of argument `{name}`. Expected ({rows},), one "
            f"number per row. Received: shape {array.shape}"
        )
    bad = int(np.sum(~np.isfinite(array)))
    if bad:
        raise NonFiniteError(
            f"Invalid value for argument `{name}`. Expected finite numbers. "
            f"Received: {bad} values that are NaN or infinite"
        )
    return array


def row_losses(predictive: Predictive, y: npt.ArrayLike) -> Float64Array:
    """Returns the loss of each row, against its labels.

    Classes and labels: the share of wrong labels of the row. Numbers: the
    squared error, averaged over the outputs of the row. `expected_loss` is the
    expectation of this loss.
    """
    return mean_per_row(observation_of(predictive).losses(predictive, y))
