# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of metrics: a `Predictive` or arrays, truth first."""

import functools
import inspect
from collections.abc import Callable
from typing import Any
from typing import ParamSpec
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.observations import tasks_of

Prediction = Predictive | npt.ArrayLike

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def truth_first(
    function: Callable[_Params, _Result],
) -> Callable[_Params, _Result]:
    """Decorates a public function that takes the truth as first argument.

    A `Predictive` as first argument is the reverse order. It is refused with
    an error that shows the right one.
    """

    @functools.wraps(function)
    def checked(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        if args and isinstance(args[0], Predictive):
            namespace = function.__module__.split(".")[1]
            truth, other = list(inspect.signature(function).parameters)[:2]
            raise BayesdropError(
                f"The arguments of `{namespace}.{function.__name__}` are in "
                "the wrong order. Expected the truth first: "
                f"{namespace}.{function.__name__}({truth}, {other}). "
                f"Received: a `Predictive` as first argument `{truth}`"
            )
        return function(*args, **kwargs)

    return checked


def probabilities(prediction: Prediction) -> tuple[npt.NDArray[Any], str]:
    """Returns probabilities and their kind of observation.

    The kind is `"class"`, or `"label"` for one probability per label.

    In an array with several axes, a last axis longer than 1 runs over classes.
    Any other array holds one probability per label. An array cannot say that
    its last axis holds several independent labels: that takes a `Predictive`.
    """
    if isinstance(prediction, Predictive):
        observation = prediction.head.observation
        if observation == "number":
            tasks = " or ".join(map(repr, tasks_of("class", "label")))
            raise BayesdropError(
                "This metric is not defined for a regression. Expected "
                f"task={tasks}. Received: task={prediction.task!r}"
            )
        return prediction.mean, observation
    values = np.asarray(prediction)
    valid = values.ndim > 0 and values.dtype.kind in "fiub"
    if not valid or not np.all((values >= 0) & (values <= 1)):
        raise BayesdropError(
            "Invalid probabilities. Expected an array of numbers in [0, 1], "
            f"one row per example. Received: an array of type {values.dtype} "
            f"and shape {values.shape}"
        )
    classes = values.ndim > 1 and values.shape[-1] > 1
    return values, "class" if classes else "label"


def check_some(values: npt.NDArray[Any]) -> None:
    """Raises if an array has no rows."""
    if values.size == 0:
        raise BayesdropError(
            "Cannot compute a metric without examples. Expected at least one "
            f"example. Received: shape {values.shape}"
        )


def finite_numbers(name: str, values: npt.ArrayLike) -> Float64Array:
    """Returns an array as float64, or raises if a number is not finite."""
    array = as_numbers(name, values).astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise NonFiniteError(
            f"Invalid value for argument `{name}`. Expected finite numbers. "
            f"Received: {np.sum(~np.isfinite(array))} values that are NaN or "
            "infinite."
        )
    return array


def top_label(
    y: npt.ArrayLike, prediction: Prediction
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Returns confidence in the most likely label, and where it is right.

    Both arrays are flat, with one entry per label.
    """
    values, observation = probabilities(prediction)
    check_some(values)
    if observation == "label":
        p = values.astype(np.float64)
        right = (p >= 0.5) == binary_labels(values, y)
        return np.maximum(p, 1.0 - p).ravel(), right.ravel()
    right = np.argmax(values, axis=-1) == class_labels(values, y)
    return values.max(axis=-1).astype(np.float64).ravel(), right.ravel()


def by_row(name: str, values: npt.ArrayLike) -> Float64Array:
    """Returns finite numbers `[rows]`, from `[rows]` or `[rows, 1]`."""
    array = finite_numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.size == 0:
        raise BayesdropError(
            f"Invalid shape of argument `{name}`. Expected one number per "
            f"row, and at least one row. Received: {name}.shape={array.shape}"
        )
    return array


def pair_by_row(
    name: str, values: npt.ArrayLike, uncertainty: npt.ArrayLike
) -> tuple[Float64Array, Float64Array]:
    """Returns the truth and the uncertainty of each row, both `[rows]`.

    Args:
        name: Name of the argument `values`, for errors.
        values: What is known of each row, such as its loss.
        uncertainty: Uncertainty of each row.
    """
    second = by_row("uncertainty", uncertainty)
    first = by_row(name, values)
    if first.shape != second.shape:
        raise BayesdropError(
            f"Invalid shape of argument `{name}`. Expected {second.shape}, as "
            f"of `uncertainty`. Received: {name}.shape={first.shape}"
        )
    flags = np.asarray(uncertainty).dtype.kind == "b"
    if flags and not np.all((first == 0) | (first == 1)):
        raise BayesdropError(
            f"The arguments `{name}` and `uncertainty` look swapped. Expected "
            f"the truth first: ({name}, uncertainty). Received: bools as "
            f"`uncertainty`, and values from {first.min()} to {first.max()} "
            f"as `{name}`"
        )
    return first, second
