# SPDX-License-Identifier: Apache-2.0
"""Writes predictions as comma-separated values, a line per row."""

import csv
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.predictive import Predictive

_Column = tuple[str, npt.NDArray[Any]]


def write_table(
    path: pathlib.Path, predictions: dict[str, Predictive], level: float
) -> None:
    """Writes predictions as comma-separated values.

    Numbers have enough digits to be read back exactly.

    Args:
        path: The file.
        predictions: By output. If there are several, the output's name comes
            before the name of a column.
        level: Probability of the interval from `lower` to `upper`.
    """
    several = len(predictions) > 1
    columns = [
        (f"{output}_{name}" if several else name, values)
        for output, predictive in predictions.items()
        for name, values in table_columns(predictive, level)
    ]
    rows = len(next(iter(predictions.values())))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", *(name for name, _ in columns)])
        for row in range(rows):
            writer.writerow([row, *(str(values[row]) for _, values in columns)])


def table_columns(predictive: Predictive, level: float) -> list[_Column]:
    """Returns the columns of one output, each with a value per row.

    Args:
        predictive: The prediction.
        level: Probability of the interval.
    """
    lower, upper = predictive.interval(level)
    quantities: dict[str, npt.NDArray[Any]] = {}
    if predictive.task == "classification":
        quantities["class"] = np.argmax(predictive.mean, axis=-1)
    quantities |= {"mean": predictive.mean, "std": predictive.std}
    if predictive.noise_precision is not None:
        quantities["total_std"] = np.sqrt(predictive.total)
    quantities |= {"lower": lower, "upper": upper}
    for q in predictive.quantile_levels or ():
        quantities[f"q{q:g}"] = predictive.quantile(q)
    if predictive.task != "regression":
        quantities["entropy"] = predictive.predictive_entropy
        quantities["mutual_information"] = predictive.mutual_information
    return [
        column
        for name, values in quantities.items()
        for column in _split(name, values)
    ]


def _split(name: str, values: npt.NDArray[Any]) -> Iterator[_Column]:
    """Splits an array into columns, named by their index in a row."""
    for place in np.ndindex(values.shape[1:]):
        full = "_".join([name, *map(str, place)])
        index = (slice(None), *place)
        yield full, values[index]
