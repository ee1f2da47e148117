# SPDX-License-Identifier: Apache-2.0
"""Prediction over one input, with bands."""

from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.metrics._inputs import by_row
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.outputs import one_output
from keras_bayesdrop.predictive.outputs import targets_of
from keras_bayesdrop.predictive.sample_noise import knows_noise

_FUNCTIONS = 5
# A light band around a dark one, also in grey print.
_TOTAL, _EPISTEMIC = _style.COLOURS[4], _style.COLOURS[0]


def predictive_band(
    p: Any,
    x: Any,
    y: Any = None,
    x_observed: Any = None,
    levels: Any = (0.68, 0.95),
    functions: int | None = None,
    output: int | tuple[int, ...] | None = None,
    ax: Any = None,
) -> Any:
    """Draws a prediction over one input: mean, bands, functions, data.

    The bands are central intervals at each of the levels. With samples `y[t]`
    and noise of precision `tau`:

        epistemic  quantiles of y[t]: the range of the function
        total      quantiles of sum{ N(y; y[t], 1 / tau) : t } / T: the range
                   of an observation

    The epistemic band lies inside the total one. Without `noise_precision`,
    and for a binary prediction, only the epistemic band is drawn. Without
    samples both are normal approximations (see `Predictive.interval`).

    Args:
        p: `Predictive` of a regression, or a binary one.
        x: Numbers `[rows]` or `[rows, 1]`, in any order: the input on the
            horizontal axis.
        y: Optional observations at `x`, or at `x_observed`.
        x_observed: Inputs of the observations `y`, if they differ from `x`,
            which often is a grid.
        levels: Sequence of floats in `(0, 1)`. Defaults to 68 % and 95 %.
        functions: Int. Number of samples to draw, as thin lines. It needs
            samples with shared masks, each of which is one function. Defaults
            to 5 with such samples, and to 0 without.
        output: The output to draw, if there are several: its number along the
            flattened axes, or a tuple with an int for each axis.
        ax: Axes to draw on; `None` for those of a new figure.

    Returns:
        The axes.

    Example:
    ```python
    head = keras_bayesdrop.Regression(noise_precision=100.0)
    p = keras_bayesdrop.predict_with_uncertainty(
        model, grid, head=head, return_samples=True
    )
    keras_bayesdrop.plots.predictive_band(p, grid, y, x_observed=x)
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142),
          figure 2.
    """
    p = _inputs.check_prediction(p, ("number", "label"))
    one = one_output(p, output)
    place = by_row("x", x)
    if len(place) != len(p):
        raise BayesdropError(
            "Invalid shape of argument `x`. Expected one number for each of "
            f"{len(p)} rows. Received: {len(place)} numbers"
        )
    wide_first = _inputs.wide_first(levels)
    functions = _check_functions(one, functions)
    data = _observations(p, place, y, x_observed, output)
    order = np.argsort(place, kind="stable")
    one, place = one[order], place[order]
    bands = _bands(one, wide_first)
    ax = _style.axes_for(ax)
    texts = ", ".join(f"{100 * level:.4g}" for level in wide_first) + " %"
    entries: dict[str, Any] = {}
    for kind, (colour, edges) in bands.items():
        entries[f"{kind}: {texts}"] = tuple(
            ax.fill_between(
                place, *edge, facecolor=colour, alpha=alpha, lw=0, zorder=1
            )
            for edge, alpha in zip(edges, _alphas(len(edges)), strict=True)
        )
    if functions and one.samples is not None:
        lines = ax.plot(
            place, one.samples[:functions].T, color="black", lw=0.6, alpha=0.45
        )
        entries["single functions"] = lines[0]
    (entries["mean"],) = ax.plot(place, one.mean, color=_EPISTEMIC, lw=2.2)
    if data is not None:
        (entries["observed"],) = ax.plot(
            *data, "o", color="black", ms=3.5, mec="white", mew=0.5, zorder=3
        )
    ax.set_xlim(_span(place, None if data is None else data[0]))
    binary = one.head.observation == "label"
    what = "probability" if binary else "prediction"
    if binary:
        ax.set_ylim(-0.04, 1.04)
    _style.dress(ax, "Predictive distribution", "x", what)
    _legend(ax, entries)
    return ax


def _bands(
    p: Predictive, levels: list[float]
) -> dict[str, tuple[str, list[tuple[Array, Array]]]]:
    """Returns the colour and the edges of bands, by kind, outer ones first."""
    # Without the noise, an interval is one of the function.
    function = p.without_noise()
    kinds = {"epistemic": (_EPISTEMIC, function)}
    if knows_noise(p):
        kinds = {"total": (_TOTAL, p), **kinds}
    return {
        kind: (colour, [each.interval(level) for level in levels])
        for kind, (colour, each) in kinds.items()
    }


def _alphas(count: int) -> Float64Array:
    """Returns opacities of overlapping bands, darker for inner ones."""
    return np.linspace(0.3, 0.4, count)


def _span(
    place: Float64Array, observed: Float64Array | None
) -> tuple[float, float]:
    """Returns the limits of the horizontal axis."""
    every = place if observed is None else np.concatenate([place, observed])
    low, high = float(every.min()), float(every.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _check_functions(p: Predictive, functions: Any) -> int:
    """Returns the number of functions to draw."""
    drawable = p.samples is not None and p.stats.masks == "shared"
    if functions is None:
        return min(_FUNCTIONS, p.stats.num_samples) if drawable else 0
    asked = check_int(functions, "functions", at_least=0)
    if asked and not drawable:
        kept = "None" if p.samples is None else "kept"
        raise MissingSamplesError(
            "There are no functions to draw. Expected samples with shared "
            "masks, as of predict_with_uncertainty(..., return_samples=True)."
            f" Received: samples={kept}, masks={p.stats.masks!r}"
        )
    return asked


def _observations(
    p: Predictive, place: Float64Array, y: Any, x_observed: Any, output: Any
) -> tuple[Float64Array, Float64Array] | None:
    """Returns the inputs and values of the observations."""
    if y is None:
        if x_observed is not None:
            raise invalid("y", y, "observations at `x_observed`")
        return None
    if x_observed is None:
        one = one_output(p, output)
        return place, regression_targets(one.mean, targets_of(p, y, output))
    where = by_row("x_observed", x_observed)
    return where, regression_targets(where, y)


def _legend(ax: Any, entries: dict[str, Any]) -> None:
    """Adds a legend with one line for all bands of a kind."""
    from matplotlib.legend_handler import HandlerTuple

    _style.legend(
        ax,
        handles=list(entries.values()),
        labels=list(entries),
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.0)},
    )
