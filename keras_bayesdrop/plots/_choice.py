# SPDX-License-Identifier: Apache-2.0
"""Choice of the plot for `Predictive.plot`, by task and arguments."""

from typing import Any

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.plots._class_scatter import class_scatter
from keras_bayesdrop.plots._entropy_histogram import entropy_histogram
from keras_bayesdrop.plots._parity import parity
from keras_bayesdrop.plots._predictive_band import predictive_band
from keras_bayesdrop.plots._reliability_diagram import reliability_diagram
from keras_bayesdrop.predictive import Predictive

# Most rows whose single samples can be told apart in a plot.
_FEW = 24


def fitting_picture(
    p: Predictive, x: Any = None, y: Any = None, out: Any = None, ax: Any = None
) -> Any:
    """Draws the plot that `Predictive.plot` describes."""
    if out is not None:
        if x is not None or y is not None:
            raise BayesdropError(
                "A comparison of two predictions takes no data. Expected "
                "`out`, or `x` and `y`, and not both. Received: "
                f"x={_type(x)}, y={_type(y)}, out={_type(out)}"
            )
        return entropy_histogram(p, out, _quantity(p), ax=ax)
    if x is not None and p.task != "classification":
        return predictive_band(p, x, y, ax=ax)
    few = len(p) <= _FEW and p.samples is not None and p.mean.ndim == 2
    if x is not None or (y is None and few and p.task == "classification"):
        if y is not None:
            raise BayesdropError(
                "A scatter of classes shows no labels. Expected `x` or `y`, "
                "and not both, for task='classification'. Received: both"
            )
        return class_scatter(p, x=x, ax=ax)
    if y is None:
        return entropy_histogram(p, quantity=_quantity(p), ax=ax)
    draw = parity if p.task == "regression" else reliability_diagram
    return draw(y, p, ax=ax)


def _quantity(p: Predictive) -> str:
    """Returns the quantity that a histogram shows."""
    return "std" if p.task == "regression" else "predictive_entropy"


def _type(value: Any) -> str:
    """Returns the type of an argument, for errors."""
    return "None" if value is None else type(value).__name__
