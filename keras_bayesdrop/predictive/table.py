# SPDX-License-Identifier: Apache-2.0
"""The table of a prediction: one place decides its columns.

The command line writes it as a file, `Predictive.to_frame` returns it as a
data frame, and `Predictive._repr_html_` shows its first rows.
"""

import contextlib
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import MissingPackageError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive.sample_noise import knows_noise
from keras_bayesdrop.predictive.sample_noise import learns_noise

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


def quantities(
    p: "Predictive", level: float | None
) -> dict[str, npt.NDArray[Any]]:
    """Returns the quantities of the table, each `[rows, ...]`.

    Args:
        p: The prediction.
        level: Probability of the interval from `lower` to `upper`; `None` for
            a table without interval.
    """
    values: dict[str, npt.NDArray[Any]] = {}
    if p.head.observation == "class":
        values["class"] = np.argmax(p.mean, axis=-1)
    values |= {"mean": p.mean, "std": p.std}
    if learns_noise(p):
        values["aleatoric_std"] = np.sqrt(p.aleatoric)
    if knows_noise(p):
        values["total_std"] = np.sqrt(p.total)
    if level is not None:
        values["lower"], values["upper"] = p.interval(level)
    for q in p.quantile_levels or ():
        values[f"q{q:g}"] = p.quantile(q)
    if p.head.observation != "number":
        values["entropy"] = p.predictive_entropy
        # It needs the samples, or their mean entropy.
        with contextlib.suppress(MissingSamplesError):
            values["mutual_information"] = p.mutual_information
    return values


def columns_of(
    values: dict[str, npt.NDArray[Any]],
) -> dict[str, npt.NDArray[Any]]:
    """Splits quantities `[rows, ...]` into columns with a value per row.

    The columns of several outputs are named by their index in a row.
    """
    columns = {}
    for name, array in values.items():
        for place in np.ndindex(array.shape[1:]):
            index = (slice(None), *place)
            columns["_".join([name, *map(str, place)])] = array[index]
    return columns


def import_pandas() -> Any:
    """Returns the module pandas, or raises if it is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise MissingPackageError(
            "Data frames need pandas, which cannot be imported. Expected it "
            f"to be installed, as by `pip install pandas`. Received: {error}"
        ) from error
    return pandas


def to_frame(p: "Predictive", level: float) -> Any:
    """Implements `Predictive.to_frame`, which documents the arguments."""
    pandas = import_pandas()
    index = pandas.RangeIndex(len(p), name="row")
    return pandas.DataFrame(columns_of(quantities(p, level)), index=index)
