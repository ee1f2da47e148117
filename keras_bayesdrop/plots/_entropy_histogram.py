# SPDX-License-Identifier: Apache-2.0
"""Histograms of uncertainty, in and out of distribution."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop import metrics
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.metrics._inputs import by_row
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.outputs import one_output

_NAMES = ("in distribution", "out of distribution")


def entropy_histogram(
    p_in: Any,
    p_out: Any = None,
    quantity: str = "predictive_entropy",
    bins: int = 30,
    ax: Any = None,
    output: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Draws the uncertainty of inputs in and out of distribution.

    Each histogram shows fractions of its rows, over the same bins. The number
    in the legend is the probability that a row out of distribution is less
    certain than one in distribution,

        AUROC = P(u_out > u_in) + P(u_out = u_in) / 2

    It is 0.5 for an uncertainty without information, and 1 for an uncertainty
    that separates the two.

    Args:
        p_in: `Predictive` of inputs like the training data; or the quantity
            itself, `[rows]`.
        p_out: The same of other inputs. Without it there is one histogram.
        quantity: Attribute of `Predictive` to draw:
            `"predictive_entropy"` (default), `"mutual_information"`,
            `"expected_entropy"`, `"variation_ratio"`, `"std"`, `"epistemic"`,
            `"aleatoric"` or `"total"`. A row with several outputs counts with
            their mean.
        bins: Positive int. Number of bars. Defaults to `30`.
        ax: Axes to draw on; `None` for those of a new figure.
        output: The output of a `Predictive` to draw, if there are several: its
            number along the flattened axes, or a tuple with an int for each
            axis. Defaults to their mean.
        names: Two texts for the legend, or one without `p_out`. Defaults to
            `"in distribution"` and `"out of distribution"`.

    Returns:
        The axes.

    Example:
    ```python
    inside = keras_bayesdrop.predict_with_uncertainty(model, x_test)
    outside = keras_bayesdrop.predict_with_uncertainty(model, noise)
    keras_bayesdrop.plots.entropy_histogram(inside, outside)
    ```

    References:
        - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474),
          figure 3.
    """
    known = _values(p_in, quantity, "p_in", output)
    strange = None
    if p_out is not None:
        strange = _values(p_out, quantity, "p_out", output)
    bins = check_positive_int(bins, "bins")
    if names is None:
        names = ["rows"] if strange is None else list(_NAMES)
    names = _inputs.check_names(
        names, "names", 1 if strange is None else 2, "histogram"
    )
    shown = [(names[0], known, _style.COLOURS[0], "-")]
    if strange is None:
        every = known
    else:
        shown.append((names[1], strange, _style.COLOURS[1], "--"))
        every = np.concatenate([known, strange])
        is_out = np.arange(len(every)) >= len(known)
        auroc = metrics.uncertainty_auroc(is_out, every)
    edges = _edges(every, bins)
    ax = _style.axes_for(ax)
    for label, values, colour, line in shown:
        counts, _ = np.histogram(values, edges)
        text = f"{label}: {len(values)}"
        shares = counts / len(values)
        _style.shaded_steps(ax, shares, edges, colour, line, text)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(bottom=0.0)
    text = _inputs.QUANTITIES[quantity]
    _style.dress(ax, "How unsure the model is", text, "share of rows")
    _style.legend(ax, "" if strange is None else f"AUROC {auroc:.3f}")
    return ax


def _values(p: Any, quantity: str, name: str, output: Any) -> Float64Array:
    """Returns the uncertainty of each row."""
    if isinstance(p, Predictive) or output is not None:
        p = _inputs.check_prediction(p, name=name)
        p = p if output is None else one_output(p, output)
        return _inputs.uncertainty_of(p, quantity)
    _inputs.check_quantity(quantity)
    return by_row(name, p)


def _edges(values: Float64Array, bins: int) -> Float64Array:
    """Returns bin edges from the smaller of 0 and the least value up."""
    low, high = min(0.0, float(values.min())), float(values.max())
    return np.linspace(low, high if high > low else low + 1.0, bins + 1)
