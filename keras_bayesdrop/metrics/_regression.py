# SPDX-License-Identifier: Apache-2.0
"""Inputs of regression metrics: a `Predictive`, or plain arrays."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import finite_numbers
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.observations import tasks_of
from keras_bayesdrop.predictive.select import quantities_of

Intervals = Predictive | tuple[npt.ArrayLike, npt.ArrayLike]


def check_regression(p: Predictive) -> None:
    """Raises unless the prediction is of numbers, and not empty."""
    if p.head.observation != "number":
        tasks = " or ".join(map(repr, tasks_of("number")))
        raise BayesdropError(
            "This metric is not defined for probabilities. Expected "
            f"task={tasks}. Received: task={p.task!r}"
        )
    check_some(p.mean)
    # Samples that are not finite have a mean that is not either.
    finite_numbers("mean", p.mean)


def sample_array(prediction: Prediction) -> Array:
    """Returns samples `[T, rows, outputs]`, `T` at least 2."""
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        if prediction.samples is None:
            raise MissingSamplesError(
                "Cannot compute this metric. Expected the single samples. "
                "Received: samples=None. Use predict_with_uncertainty(..., "
                "return_samples=True)."
            )
        return prediction.samples
    samples = finite_numbers("prediction", prediction)
    if samples.ndim < 2 or len(samples) < 2:
        raise BayesdropError(
            "Invalid shape of argument `prediction`. Expected samples "
            "[T, rows, outputs] with T of at least 2, or a `Predictive`. "
            f"Received: prediction.shape={samples.shape}"
        )
    check_some(samples)
    return samples


def ends(
    prediction: Intervals, level: float
) -> tuple[Float64Array, Float64Array]:
    """Returns lower and upper ends of intervals, both of one shape."""
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        below, above = prediction.interval(level)
        return below.astype(np.float64), above.astype(np.float64)
    if not isinstance(prediction, tuple | list) or len(prediction) != 2:
        raise BayesdropError(
            "Invalid value for argument `prediction`. Expected a `Predictive` "
            "or a pair (lower, upper) of arrays. Received: "
            f"{type(prediction).__name__}"
        )
    lower, upper = (_numbers(end) for end in prediction)
    if lower.shape != upper.shape or np.any(lower > upper):
        raise BayesdropError(
            "Invalid intervals. Expected lower ends that are not above the "
            "upper ends, and as many. Received: arrays of shape "
            f"{lower.shape} and {upper.shape}"
        )
    return lower, upper


def bounds(
    prediction: Intervals, targets: npt.ArrayLike, level: float
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Returns lower and upper ends and targets, all of one shape."""
    lower, upper = ends(prediction, level)
    return lower, upper, regression_targets(lower, targets)


def check_level(level: float, name: str = "level") -> float:
    """Returns a level if it is in (0, 1)."""
    number = isinstance(level, int | float | np.number)
    if not number or not 0 < level < 1:
        raise BayesdropError(
            f"Invalid value for argument `{name}`. Expected a float in "
            f"(0, 1). Received: {name}={level!r}"
        )
    return float(level)


def predictive_quantile(p: Predictive, q: float) -> Array:
    """Quantile of an observation, noise included, as `Predictive.interval`."""
    return quantities_of(p.head).observation_quantile(p, q)


def _numbers(values: npt.ArrayLike) -> Float64Array:
    """Ends of intervals: they may be infinite, but not NaN."""
    array = as_numbers("prediction", values).astype(np.float64)
    check_some(array)
    if np.any(np.isnan(array)):
        raise NonFiniteError(
            "Invalid intervals. Expected numbers or infinity. Received: "
            f"{np.sum(np.isnan(array))} values that are NaN"
        )
    return array
