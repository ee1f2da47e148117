# SPDX-License-Identifier: Apache-2.0
"""One page of pictures that answers whether a model can be trusted."""

from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.metrics._regression import bounds
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.plots._entropy_histogram import entropy_histogram
from keras_bayesdrop.plots._error_curve import error_curve
from keras_bayesdrop.plots._regression_calibration import regression_calibration
from keras_bayesdrop.plots._reliability_diagram import reliability_diagram
from keras_bayesdrop.plots._risk_coverage import risk_coverage
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of

_SIZE = (11.0, 8.6)
_BINS = 30
_TITLES = {
    "predictive_entropy": "All uncertainty, where right and where wrong",
    "mutual_information": "That of the model, where right and where wrong",
}


def evaluation_page(y: Any, p: Predictive, level: float) -> Any:
    """Draws the page.

    Args:
        y: Labels or targets.
        p: The prediction.
        level: Probability of the intervals whose widths are drawn.

    Returns:
        The figure.
    """
    _inputs.check_prediction(p)
    figure = _style.pyplot().figure(figsize=_SIZE, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    axes = figure.subplots(2, 2)
    risk = risk_coverage(y, p, ax=axes[0, 1])
    # Room for the legend above the curves.
    risk.set_ylim(top=1.4 * risk.get_ylim()[1])
    if p.head.observation == "number":
        regression_calibration(y, p, ax=axes[0, 0])
        error_curve(y, p, ax=axes[1, 0])
        _draw_widths(y, p, level, axes[1, 1])
        return figure
    reliability_diagram(y, p, ax=axes[0, 0])
    wrong = np.asarray(observation_of(p).losses(p, y), bool)
    _draw_right_and_wrong(p, wrong, "predictive_entropy", axes[1, 0])
    try:
        _draw_right_and_wrong(p, wrong, "mutual_information", axes[1, 1])
    except MissingSamplesError:
        axes[1, 1].remove()
    return figure


def _draw_right_and_wrong(
    p: Predictive, wrong: Any, quantity: str, ax: Any
) -> None:
    """Draws the uncertainty of right and of wrong labels."""
    values = np.asarray(getattr(p, quantity), np.float64)
    parts = {"right": values[~wrong], "wrong": values[wrong]}
    filled = {name: part for name, part in parts.items() if part.size}
    first, *second = filled.values()
    other = second[0] if second else None
    names = list(filled)
    entropy_histogram(first, other, quantity, _BINS, ax, names=names)
    ax.set_title(_TITLES[quantity], fontsize=_style.TEXT + 1)


def _draw_widths(y: Any, p: Predictive, level: float, ax: Any) -> None:
    """Draws the widths of intervals that hold their target, and of others."""
    lower, upper, target = bounds(p, y, level)
    inside = (lower <= target) & (target <= upper)
    width: Float64Array = upper - lower
    high = float(width.max())
    edges = np.linspace(0.0, high if high > 0 else 1.0, _BINS + 1)
    for which, name, colour, line in (
        (inside, "hold the target", _style.COLOURS[0], "-"),
        (~inside, "miss it", _style.COLOURS[1], "--"),
    ):
        counts, _ = np.histogram(width[which], edges)
        label = f"{int(which.sum())} {name}"
        shares = counts / width.size
        _style.shaded_steps(ax, shares, edges, colour, line, label)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(bottom=0.0)
    share = _style.percent(round(float(inside.mean()), 3))
    _style.dress(
        ax,
        f"Widths of {_style.percent(level)} intervals",
        "width of the interval",
        "share of targets",
    )
    _style.legend(ax, f"{share} covered")
