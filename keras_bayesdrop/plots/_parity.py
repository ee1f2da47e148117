# SPDX-License-Identifier: Apache-2.0
"""Predictions against observations, with error bars."""

import math
from typing import Any

import numpy as np

from keras_bayesdrop.metrics import root_mean_squared_error
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.metrics._regression import check_level
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.outputs import one_output
from keras_bayesdrop.predictive.outputs import targets_of
from keras_bayesdrop.predictive.sample_noise import knows_noise

# With more points than this, bars are fainter.
_FEW = 100


@truth_first
def parity(
    y: Any,
    p: Any,
    level: float = 0.9,
    output: int | tuple[int, ...] | None = None,
    ax: Any = None,
) -> Any:
    """Draws predictions against observations, each with its interval.

    A perfect prediction lies on the diagonal. The bar of a point is the
    central interval of the predictive distribution, `p.interval(level)`. If
    the intervals are calibrated, a fraction `level` of them reaches the
    diagonal. Those that do not have another colour and marker.

    Args:
        y: Targets `[rows]`, or `[rows, outputs]`.
        p: `Predictive` of a regression. Without `noise_precision` its
            intervals leave out the noise of observations, and are too short.
        level: Float in `(0, 1)`. Probability of the intervals. Defaults to
            `0.9`.
        output: The output to draw, if there are several: its number along the
            flattened axes, or a tuple with an int for each axis.
        ax: Axes to draw on; `None` for those of a new figure.

    Returns:
        The axes.

    Example:
    ```python
    head = keras_bayesdrop.Regression(noise_precision=tau)
    p = keras_bayesdrop.predict_with_uncertainty(
        model, x_test, head=head, return_samples=True
    )
    keras_bayesdrop.plots.parity(y_test, p)
    ```
    """
    p = _inputs.check_prediction(p, ("number",))
    one = one_output(p, output)
    target = regression_targets(one.mean, targets_of(p, y, output))
    low, high = one.interval(check_level(level))
    covered = (low <= target) & (target <= high)
    rmse = root_mean_squared_error(target, one)
    ax = _style.axes_for(ax)
    ends = _ends(target, low, high)
    ax.plot(ends, ends, color=_style.GREY, ls="--", lw=1, label="_diagonal")
    strength = max(0.15, min(0.7, 0.7 * math.sqrt(_FEW / len(one))))
    for which, marker, colour, word in (
        (covered, "o", _style.COLOURS[0], "reach the diagonal"),
        (~covered, "D", _style.COLOURS[1], "miss it"),
    ):
        mean = one.mean[which]
        ax.errorbar(
            target[which],
            mean,
            # The mean may lie outside an interval of quantiles.
            yerr=np.maximum([mean - low[which], high[which] - mean], 0.0),
            fmt=marker,
            ms=4.5,
            mec="white",
            mew=0.5,
            color=colour,
            ecolor=(colour, strength),
            elinewidth=1.2,
            label=f"{int(which.sum())} {word}",
        )
    ax.set_xlim(ends)
    ax.set_ylim(ends)
    ax.set_aspect("equal")
    noise = "" if knows_noise(p) else " without noise"
    _style.dress(
        ax,
        f"Predictions with {_style.percent(level)} intervals{noise}",
        "observed",
        "predicted",
    )
    share = _style.percent(round(float(covered.mean()), 3))
    _style.legend(ax, f"{share} covered, RMSE {rmse:.3g}", loc="upper left")
    return ax


def _ends(*values: Any) -> tuple[float, float]:
    """Returns the limits of both axes, with a margin."""
    low = float(min(np.min(each) for each in values))
    high = float(max(np.max(each) for each in values))
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin
