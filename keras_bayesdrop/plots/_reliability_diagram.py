# SPDX-License-Identifier: Apache-2.0
"""Reliability diagram: accuracy against confidence."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.metrics import Reliability
from keras_bayesdrop.metrics import reliability
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.plots._binomial import binomial_band

# Probability of the bars of a calibrated model.
_LEVEL = 0.95
_NARROWEST = 0.004
# Position of the histogram above the axes, in fractions of the axes.
_ABOVE = (0.0, 1.03, 1.0, 0.18)


@truth_first
def reliability_diagram(
    y: Any,
    p: Any,
    num_bins: int = 15,
    binning: str = "width",
    ax: Any = None,
    output: Any = None,
) -> Any:
    """Draws accuracy against confidence, and a histogram of confidence.

    Confidence is the probability of the most likely label. A point is a bin of
    confidences: the mean confidence, and the fraction of right labels. Below
    the diagonal the model is overconfident. The grey bars contain 95 % of the
    accuracies that a calibrated model shows by chance, with the same number of
    labels in the bin:

        count[b] * accuracy[b] ~ Binomial(count[b], confidence[b])

    A point inside its bar is no evidence against the model. A point outside
    has another colour and marker. The histogram of confidences is above. The
    legend has the expected calibration error (ECE), the mean distance of a
    label from the diagonal.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        p: `Predictive` of a classification or binary; or probabilities
            `[rows, classes]` or `[rows]`.
        num_bins: Positive int. Defaults to `15`.
        binning: `"width"` for bins of equal width (default), or `"mass"` for
            bins with equally many labels.
        ax: Axes to draw on; `None` for those of a new figure.
        output: The label of a `Predictive` to draw, if a row has several: its
            number along the flattened axes, or a tuple with an int for each
            axis. Defaults to all of them together.

    Returns:
        The axes. Those of the histogram are in `child_axes`.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(model, x_test)
    keras_bayesdrop.plots.reliability_diagram(y_test, p)
    ```

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599), figure 4.
        - [Broecker and Smith, 2007](https://doi.org/10.1175/WAF993.1), on
          the bars.
    """
    if output is not None:
        p = _inputs.check_prediction(p, ("class", "label"))
        p, y = _inputs.drawn_output(p, y, output)
    curve = reliability(y, p, num_bins, binning)
    filled = np.flatnonzero(curve.count)
    chance = _chance(curve, filled)
    ax = _style.axes_for(ax)
    ax.plot([0, 1], [0, 1], color=_style.GREY, ls="--", lw=1, label="_diagonal")
    left, right = curve.edges[filled], curve.edges[filled + 1]
    ax.bar(
        (left + right) / 2,
        chance[1] - chance[0],
        # A bin of equal mass may be a single value: keep it visible.
        0.9 * np.maximum(right - left, _NARROWEST),
        chance[0],
        color=_style.GREY,
        alpha=0.22,
        lw=0,
        label=f"calibrated, {_style.percent(_LEVEL)}",
    )
    _draw_points(ax, curve.confidence[filled], curve.accuracy[filled], chance)
    # The least confidence is one over the number of classes. The axis starts
    # there, rounded down to tenths.
    begin = min(0.5, math.floor(10 * left[0]) / 10)
    ax.set_xlim(begin, 1.0)
    ax.set_ylim(0.0, 1.03)
    _style.dress(ax, "Reliability", "confidence", "accuracy")
    _style.legend(ax, f"ECE {curve.error:.3f}")
    _draw_histogram(ax, curve)
    return ax


def _chance(curve: Reliability, filled: npt.NDArray[np.intp]) -> Float64Array:
    """Returns ends of the accuracy of a calibrated model, [2, bins]."""
    mean = np.clip(curve.confidence, 0.0, 1.0)
    bands = [
        binomial_band(int(curve.count[b]), float(mean[b]), _LEVEL)
        for b in filled
    ]
    return np.transpose(bands)


def _draw_points(
    ax: Any,
    confidence: Float64Array,
    accuracy: Float64Array,
    chance: Float64Array,
) -> None:
    """Draws bins as points, with another marker outside the bars."""
    ax.plot(
        confidence,
        accuracy,
        color=_style.COLOURS[0],
        lw=1.4,
        alpha=0.6,
        label="_line",
    )
    inside = (chance[0] <= accuracy) & (accuracy <= chance[1])
    for which, marker, colour, label in (
        (inside, "o", _style.COLOURS[0], "model"),
        (~inside, "D", _style.COLOURS[1], "model, beyond chance"),
    ):
        if which.any():
            ax.plot(
                confidence[which],
                accuracy[which],
                ls="",
                marker=marker,
                ms=7,
                mec="white",
                color=colour,
                label=label,
            )


def _draw_histogram(ax: Any, curve: Reliability) -> None:
    """Draws the fraction of labels in each bin, above the axes."""
    above = ax.inset_axes(_ABOVE, sharex=ax)
    above.stairs(
        curve.count / curve.count.sum(),
        curve.edges,
        fill=True,
        facecolor=(_style.COLOURS[0], 0.3),
        edgecolor=_style.COLOURS[0],
        lw=1.2,
    )
    above.set_ylim(bottom=0.0)
    above.set_ylabel("share", fontsize=_style.TEXT - 1)
    above.tick_params(labelsize=_style.TEXT - 2, labelbottom=False)
    above.locator_params(axis="y", nbins=2)
    above.spines[["top", "right"]].set_visible(False)
