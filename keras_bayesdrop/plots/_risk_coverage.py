# SPDX-License-Identifier: Apache-2.0
"""Risk-coverage curves of a prediction."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop import metrics
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.metrics._inputs import pair_by_row
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of

_LINES: tuple[Any, ...] = ("-", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))


@truth_first
def risk_coverage(
    y: Any, p: Any, quantity: Any = None, ax: Any = None, output: Any = None
) -> Any:
    """Draws the mean loss of the rows answered, against their fraction.

    The rows are answered from the most to the least certain. With the first
    `k` of `n` answered:

        coverage = k / n,    risk = sum{ loss[i] : i <= k } / k

    Two more curves are the limits: rows in a random order have the same risk
    at every coverage, and an oracle that knows the losses answers rows of
    small loss first. An uncertainty is the better, the closer its curve is to
    the oracle.

    Args:
        y: Labels or targets. For a `Predictive` of probabilities the loss is
            0 where its most likely label is right and 1 where it is wrong. For
            a regression it is the squared error. A row with several labels or
            outputs counts with their mean. If `p` is an array, `y` is the loss
            itself, `[rows]`.
        p: `Predictive`, or the uncertainty of each row, `[rows]`.
        quantity: Attribute of a `Predictive` that is its uncertainty, or a
            sequence of attributes to compare (see `entropy_histogram`).
            Defaults to `"predictive_entropy"`, for a regression to `"total"`.
        ax: Axes to draw on; `None` for those of a new figure.
        output: The output of a `Predictive` to draw, if there are several: its
            number along the flattened axes, or a tuple with an int for each
            axis. Defaults to all of them together.

    Returns:
        The axes. The legend has the areas under the curves (AURC).

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(model, x_test)
    keras_bayesdrop.plots.risk_coverage(
        y_test, p, ("predictive_entropy", "mutual_information")
    )
    ```

    References:
        - [Geifman and El-Yaniv, 2017](https://arxiv.org/abs/1705.08500).
    """
    if output is not None:
        p = _inputs.check_prediction(p)
        p, y = _inputs.drawn_output(p, y, output)
    shown, loss, risk_text = _compared(y, p, quantity)
    mean = float(loss.mean())
    drawn = {"oracle": loss, **shown}
    curves = {
        name: (metrics.risk_coverage(loss, values), metrics.aurc(loss, values))
        for name, values in drawn.items()
    }
    ax = _style.axes_for(ax)
    ax.axhline(
        mean, color=_style.GREY, ls=":", lw=1.6, label=f"random: {mean:.3g}"
    )
    looks = itertools.chain(
        [(_style.GREY, "--")],
        zip(
            itertools.cycle(_style.COLOURS),
            itertools.cycle(_LINES),
            strict=False,
        ),
    )
    for (name, (curve, area)), (colour, line) in zip(
        curves.items(), looks, strict=False
    ):
        ax.plot(
            curve.coverage,
            curve.risk,
            color=colour,
            ls=line,
            lw=1.6 if name == "oracle" else 2.2,
            label=f"{name}: {area:.3g}",
        )
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(bottom=0.0)
    _style.dress(
        ax,
        "Risk if only the surest are answered",
        "coverage: share of rows answered",
        risk_text,
    )
    _style.legend(ax, "area under the curve")
    return ax


def _compared(
    y: Any, p: Any, quantity: Any
) -> tuple[dict[str, Float64Array], Float64Array, str]:
    """Returns uncertainties by name, the loss of each row, and its label."""
    if not isinstance(p, Predictive):
        if quantity is not None:
            raise invalid("quantity", quantity, "`None` if `p` is an array")
        loss, values = pair_by_row("y", y, p)
        return {"uncertainty": values}, loss, "risk: mean loss"
    p = _inputs.check_prediction(p)
    if quantity is None:
        quantity = _inputs.usual_quantity(p)
    several = isinstance(quantity, Sequence) and not isinstance(quantity, str)
    names = list(quantity) if several else [quantity]
    if not names:
        raise invalid("quantity", quantity, "a name, or a sequence of names")
    shown = {
        _inputs.check_quantity(name).replace("_", " "): _inputs.uncertainty_of(
            p, name
        )
        for name in names
    }
    kind = observation_of(p)
    each = kind.losses(p, y)
    loss = np.asarray(each.reshape(len(p), -1).mean(axis=1), np.float64)
    return shown, loss, f"risk: {kind.loss_text}"
