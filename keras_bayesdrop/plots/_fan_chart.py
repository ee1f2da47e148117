# SPDX-License-Identifier: Apache-2.0
"""Fan chart: a forecast of several steps, with widening bands."""

from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import by_row
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.outputs import label_shape
from keras_bayesdrop.predictive.sample_noise import knows_noise

_FAN, _MEAN = _style.COLOURS[4], _style.COLOURS[0]


def fan_chart(
    p: Any,
    history: Any = None,
    y: Any = None,
    row: int = 0,
    levels: Any = (0.5, 0.8, 0.95),
    output: int | None = None,
    x: Any = None,
    ax: Any = None,
) -> Any:
    """Draws a forecast of several steps as bands that widen with time.

    A row of the prediction is a forecast: its outputs are the steps ahead. The
    bands are central intervals of an observation at each step,

        [lower[k], upper[k]] = p.interval(level)[row, k]

    one for each level, darker inside. Each band holds for single steps: a path
    leaves a band of 80 % at about one step in five. Without `noise_precision`
    or learned noise the bands leave out the noise of observations.

    Args:
        p: `Predictive` of numbers `[rows, steps]`, or `[rows, steps, series]`.
        history: Numbers `[time]`: the series up to the forecast, the latest
            last.
        y: Numbers `[steps]`: what was observed later.
        row: Int. The row to draw. Defaults to `0`.
        levels: Sequence of floats in `(0, 1)`. Defaults to 50 %, 80 % and
            95 %.
        output: Int. The series to draw, if there are several.
        x: Increasing numbers `[steps]`: the times of the steps. Defaults to 1,
            2, ...: then the history ends at 0. With times of your own, pass
            those of history and steps together, `[time + steps]`.
        ax: Axes to draw on; `None` for those of a new figure.

    Returns:
        The axes.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(forecaster, windows)
    keras_bayesdrop.plots.fan_chart(p, history=windows[0, :, 0])
    ```
    """
    p = _inputs.check_prediction(p, ("number",))
    one = _series(p, row, output)
    steps = one.mean.shape[1]
    past = np.empty(0) if history is None else by_row("history", history)
    times = _times(x, len(past), steps)
    observed = None if y is None else _observed(y, steps)
    bands = [
        (level, [end[0] for end in one.interval(level)])
        for level in _inputs.wide_first(levels)
    ]
    ax = _style.axes_for(ax)
    ahead = times[len(past) :]
    if history is not None:
        before = times[: len(past)]
        ax.plot(before, past, color="black", lw=1.6, label="history")
        start = (before[-1] + ahead[0]) / 2
        ax.axvline(start, color=_style.GREY, lw=1, ls=":", label="_start")
    marker = "o" if steps == 1 else ""
    for (level, ends), alpha in zip(
        bands, np.linspace(0.25, 0.45, len(bands)), strict=True
    ):
        ax.fill_between(
            _wide(ahead),
            *(_wide(end) if steps > 1 else np.repeat(end, 2) for end in ends),
            facecolor=_FAN,
            alpha=alpha,
            lw=0,
            label=_style.percent(level),
        )
    ax.plot(
        ahead, one.mean[0], color=_MEAN, lw=2.2, marker=marker, label="mean"
    )
    if observed is not None:
        ax.plot(
            ahead,
            observed,
            "o",
            color="black",
            ms=3.5,
            mec="white",
            mew=0.5,
            label="observed",
        )
    noise = "" if knows_noise(p) else " without noise"
    _style.dress(
        ax,
        f"Forecast of {steps} steps{noise}",
        "steps ahead" if x is None else "time",
        "value",
    )
    _style.legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _series(p: Predictive, row: Any, output: Any) -> Predictive:
    """Returns the forecast of one row, `[1, steps]`."""
    shape = label_shape(p)
    if not 1 <= len(shape) <= 2:
        raise BayesdropError(
            "There are no steps to draw. Expected a mean of shape (rows, "
            "steps) or (rows, steps, series). Received: "
            f"p.mean.shape={p.mean.shape}"
        )
    row = check_int(row, "row", at_least=0)
    if row >= len(p):
        raise invalid("row", row, f"an integer below {len(p)}")
    series = shape[1] if len(shape) == 2 else 1
    if output is None and series != 1:
        raise BayesdropError(
            "A fan chart shows one series. Expected a forecast of one series, "
            f"or the argument `output` from 0 to {series - 1}. Received: "
            f"output=None and {series} series"
        )
    number = check_int(0 if output is None else output, "output", at_least=0)
    if number >= series:
        raise invalid("output", output, f"an integer below {series}")
    return p[row, :, number] if len(shape) == 2 else p[row]


def _times(x: Any, past: int, steps: int) -> Float64Array:
    """Returns the times of history and steps, `[past + steps]`."""
    if x is None:
        return np.arange(1.0 - past, steps + 1.0)
    times = by_row("x", x)
    if len(times) != past + steps or not np.all(np.diff(times) > 0):
        raise BayesdropError(
            "Invalid value for argument `x`. Expected increasing times, of "
            f"{past} values of the history and {steps} steps. Received: "
            f"{len(times)} times from {times[0]:g} to {times[-1]:g}"
        )
    return times


def _observed(y: Any, steps: int) -> Float64Array:
    """Returns what was observed at each step."""
    values = by_row("y", y)
    if len(values) != steps:
        raise BayesdropError(
            f"Invalid shape of argument `y`. Expected one number for each of "
            f"{steps} steps. Received: {len(values)} numbers"
        )
    return values


def _wide(values: Float64Array) -> Float64Array:
    """Returns the values; a single time as the ends of a short line."""
    if len(values) > 1:
        return values
    return np.array([values[0] - 0.25, values[0] + 0.25])
