# SPDX-License-Identifier: Apache-2.0
"""Size of the error against the predicted standard deviation."""

import math
from typing import Any

import numpy as np

from keras_bayesdrop.plots import _style
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets

_MOST_BINS = 10
# Fewest targets in a bin.
_FEWEST = 20
# With more points than this, they are fainter, and some are left out.
_FEW = 300
_MOST = 5000


def error_curve(y: Any, p: Predictive, ax: Any = None) -> Any:
    """Draws absolute errors against predicted standard deviations.

    The diamonds are bins of equally many targets, by the predicted standard
    deviation: its root mean square, and the root mean squared error. On the
    diagonal the model is as wrong as it says.

    Args:
        y: Targets.
        p: `Predictive` of numbers.
        ax: Axes to draw on; `None` for those of a new figure.

    Returns:
        The axes.

    References:
        - [Levi et al., 2022](https://doi.org/10.3390/s22155540).
    """
    error = np.abs(p.mean - regression_targets(p.mean, y)).reshape(-1)
    std = np.sqrt(np.asarray(p.total, np.float64)).reshape(-1)
    bins = max(1, min(_MOST_BINS, error.size // _FEWEST))
    order = np.argsort(std, kind="stable")
    said, was = np.transpose(
        [
            [math.sqrt(np.mean(np.square(each[rows]))) for each in (std, error)]
            for rows in np.array_split(order, bins)
        ]
    )
    ax = _style.axes_for(ax)
    shown = np.linspace(0, error.size - 1, min(error.size, _MOST)).astype(int)
    ax.plot(
        std[shown],
        error[shown],
        ls="",
        marker="o",
        ms=3,
        mew=0,
        color=_style.COLOURS[0],
        alpha=max(0.1, min(0.5, 0.5 * math.sqrt(_FEW / error.size))),
        label="single targets",
        rasterized=True,
    )
    ax.plot(
        said,
        was,
        color=_style.COLOURS[1],
        marker="D",
        ms=6,
        mec="white",
        lw=1.6,
        label="root mean square of a bin",
    )
    low, high = min(0.0, float(std.min())), float(std.max()) or 1.0
    ax.plot(
        [low, high],
        [low, high],
        color=_style.GREY,
        ls="--",
        lw=1,
        label="as wrong as it says",
    )
    ax.set_xlim(low, 1.03 * high)
    # A few large errors must not hide the others.
    top = max(float(np.quantile(error, 0.995)), float(was.max()), high)
    ax.set_ylim(0.0, 1.05 * top)
    _style.dress(
        ax,
        "Is it as wrong as it says?",
        "predicted standard deviation",
        "absolute error",
    )
    _style.legend(ax, loc="upper left")
    return ax
