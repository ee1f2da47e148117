# SPDX-License-Identifier: Apache-2.0
"""Choice of the plot for `Predictive.plot`, by observation and arguments."""

from typing import Any

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.plots._class_scatter import class_scatter
from keras_bayesdrop.plots._entropy_histogram import entropy_histogram
from keras_bayesdrop.plots._inputs import check_prediction
from keras_bayesdrop.plots._inputs import drawn_output
from keras_bayesdrop.plots._parity import parity
from keras_bayesdrop.plots._predictive_band import predictive_band
from keras_bayesdrop.plots._reliability_diagram import reliability_diagram
from keras_bayesdrop.plots._uncertainty_map import is_image
from keras_bayesdrop.plots._uncertainty_map import uncertainty_map
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of
from keras_bayesdrop.predictive.outputs import one_output

# Most rows whose single samples can be told apart in a plot.
_FEW = 24


def fitting_picture(
    p: Predictive,
    x: Any = None,
    y: Any = None,
    out: Any = None,
    ax: Any = None,
    output: Any = None,
) -> Any:
    """Draws the plot that `Predictive.plot` describes."""
    if y is None and out is None and is_image(p, x):
        return uncertainty_map(p, x, output=output, ax=ax)
    if output is not None:
        check_prediction(p)
        if isinstance(out, Predictive):
            out = one_output(out, output)
        p, y = drawn_output(p, y, output)
    quantity = observation_of(p).spread
    if out is not None:
        if x is not None or y is not None:
            raise BayesdropError(
                "A comparison of two predictions takes no data. Expected "
                "`out`, or `x` and `y`, and not both. Received: "
                f"x={_type(x)}, y={_type(y)}, out={_type(out)}"
            )
        return entropy_histogram(p, out, quantity, ax=ax)
    classes = p.head.observation == "class"
    if x is not None and not classes:
        return predictive_band(p, x, y, ax=ax)
    few = len(p) <= _FEW and p.samples is not None and p.mean.ndim == 2
    if x is not None or (y is None and few and classes):
        if y is not None:
            raise BayesdropError(
                "A scatter of classes shows no labels. Expected `x` or `y`, "
                "and not both, for task='classification'. Received: both"
            )
        return class_scatter(p, x=x, ax=ax)
    if y is None:
        return entropy_histogram(p, quantity=quantity, ax=ax)
    if p.head.observation == "number":
        return parity(y, p, ax=ax)
    return reliability_diagram(y, p, ax=ax)


def _type(value: Any) -> str:
    """Returns the type of an argument, for errors."""
    return "None" if value is None else type(value).__name__
