# SPDX-License-Identifier: Apache-2.0
"""Writes predictions as comma-separated values, a line per row."""

import csv
import pathlib

from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.table import columns_of
from keras_bayesdrop.predictive.table import quantities


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
        for name, values in columns_of(quantities(predictive, level)).items()
    ]
    rows = len(next(iter(predictions.values())))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", *(name for name, _ in columns)])
        for row in range(rows):
            writer.writerow([row, *(str(values[row]) for _, values in columns)])
