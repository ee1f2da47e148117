# SPDX-License-Identifier: Apache-2.0
"""Calibration curve of the intervals of a regression."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop.metrics import calibration_curve
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.plots._binomial import binomial_band

# Probability of the band of a calibrated model.
_LEVEL = 0.95


@truth_first
def regression_calibration(
    y: Any,
    p: Any,
    levels: Sequence[float] | None = None,
    ax: Any = None,
    output: Any = None,
) -> Any:
    """Draws the fraction of targets inside intervals, against their level.

    For each level `q`, the curve is the fraction of targets inside the central
    interval of that probability. On the diagonal the intervals are calibrated.
    Below it they are too narrow, and the model is overconfident; above it they
    are too wide. At each level, the grey band contains 95 % of the fractions
    that a calibrated model shows by chance:

        n * observed[q] ~ Binomial(n, q)

    for `n` independent targets. Chance does not explain a curve outside the
    band.

    Args:
        y: Targets `[rows]`, or `[rows, outputs]`.
        p: `Predictive` of a regression. Without `noise_precision` its
            intervals leave out the noise of observations, and are too narrow.
        levels: Increasing floats in `(0, 1)`. Defaults to 0.01 to 0.99.
        ax: Axes to draw on; `None` for those of a new figure.
        output: The output to draw, if there are several: its number along the
            flattened axes, or a tuple with an int for each axis. Defaults to
            all of them together.

    Returns:
        The axes.

    Example:
    ```python
    head = keras_bayesdrop.Regression(noise_precision=tau)
    p = keras_bayesdrop.predict_with_uncertainty(
        model, x_test, head=head, return_samples=True
    )
    keras_bayesdrop.plots.regression_calibration(y_test, p)
    ```

    References:
        - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263).
    """
    p = _inputs.check_prediction(p, ("number",))
    p, y = _inputs.drawn_output(p, y, output)
    curve = calibration_curve(y, p, levels)
    expected = np.concatenate([[0.0], curve.expected, [1.0]])
    observed = np.concatenate([[0.0], curve.observed, [1.0]])
    targets = p.mean.size
    ax = _style.axes_for(ax)
    # Many levels of its own: with few levels the band would be a polygon.
    fine = np.linspace(0.0, 1.0, 201)
    low, high = np.transpose(
        [binomial_band(targets, float(q), _LEVEL) for q in fine]
    )
    ax.fill_between(
        fine,
        low,
        high,
        color=_style.GREY,
        alpha=0.22,
        lw=0,
        label=f"calibrated, {_style.percent(_LEVEL)}",
    )
    ax.plot([0, 1], [0, 1], color=_style.GREY, ls="--", lw=1, label="_diagonal")
    ax.plot(
        expected,
        observed,
        color=_style.COLOURS[0],
        lw=2.2,
        marker="o" if len(expected) <= 30 else "",
        ms=5,
        mec="white",
        label="model",
    )
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    for across, up, text in ((0.7, 0.2, "too narrow"), (0.2, 0.6, "too wide")):
        ax.text(
            across,
            up,
            text,
            color=_style.GREY,
            alpha=0.8,
            fontsize=_style.TEXT - 1,
            ha="center",
            va="center",
        )
    _style.dress(
        ax,
        f"Calibration of {targets} targets",
        "probability of the interval",
        "share of targets inside",
    )
    _style.legend(ax, f"miscalibration area {curve.area:.3f}", loc="upper left")
    return ax
