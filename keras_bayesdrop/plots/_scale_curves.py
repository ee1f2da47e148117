# SPDX-License-Identifier: Apache-2.0
"""Best scale of a group of weights under each hyper-prior."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.plots import _style
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformScale
from keras_bayesdrop.priors import ScalePrior
from keras_bayesdrop.priors import get

_POINTS = 401
_LINES = ("-", "--", "-.", ":")


def scale_curves(
    priors: Any = None, count: int = 1, largest: float = 4.0, ax: Any = None
) -> Any:
    """Draws the best scale of a group of weights, for each hyper-prior.

    A group of `n` weights `w ~ N(0, sigma0^2 * tau^2)` shares a scale `tau`.
    The curve is the variance that explains the group best,

        tau^2 = prior.optimal_variance(n * m, n)

    over the mean second moment of its weights, `m = (mu^2 + s^2) / sigma0^2`.
    Without a hyper-prior it is `m` itself, the grey diagonal. A prior whose
    curve starts at zero can remove a group; any other prior only shrinks it.
    The larger the group, the closer all curves are to the diagonal.

    Args:
        priors: A prior as `keras_bayesdrop.priors.get` takes it, a sequence of
            priors, or a dict from labels to priors. Defaults to the
            log-uniform, the half-Cauchy and two inverse gamma priors.
        count: Positive int. Number `n` of weights in the group. Defaults to
            `1`, where the priors matter most.
        largest: Positive float. The largest `m`. Defaults to `4.0`.
        ax: Axes to draw on; `None` for those of a new figure.

    Returns:
        The axes.

    Example:
    ```python
    ax = keras_bayesdrop.plots.scale_curves(["half_cauchy", "log_uniform"])
    ax.figure.savefig("scale_curves.png")
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          figure 1(b).
    """
    labelled = _labelled(priors)
    count = check_positive_int(count, "count")
    largest = check_positive(largest, "largest")
    ax = _style.axes_for(ax)
    moments = np.linspace(0.0, largest, _POINTS)
    ax.plot(moments, moments, color=_style.GREY, lw=1, label="no hyper-prior")
    for number, (label, prior) in enumerate(labelled.items()):
        variance = prior.optimal_variance(count * moments, count)
        ax.plot(
            moments,
            keras.ops.convert_to_numpy(variance),
            color=_style.COLOURS[number % len(_style.COLOURS)],
            ls=_LINES[number % len(_LINES)],
            lw=2,
            label=label,
        )
    ax.set_xlim(0.0, largest)
    ax.set_ylim(bottom=0.0)
    group = "one weight" if count == 1 else f"a group of {count} weights"
    _style.dress(
        ax,
        f"Shrinkage of {group}",
        r"mean second moment $(\mu^2 + s^2) / \sigma_0^2$",
        r"best variance $\tau^2$",
    )
    ax.legend(fontsize=_style.TEXT - 1, frameon=False, loc="upper left")
    return ax


def _labelled(priors: Any) -> dict[str, ScalePrior]:
    """Returns the priors by their labels."""
    if priors is None:
        priors = (
            LogUniformScale(),
            HalfCauchyScale(1.0),
            InverseGammaScale(3.0, 3.0),
            InverseGammaScale(3.0, 0.3),
        )
    if isinstance(priors, Mapping) and "class_name" not in priors:
        labelled = {
            str(label): get(each, of="scales") for label, each in priors.items()
        }
    else:
        several = isinstance(priors, Sequence) and not isinstance(priors, str)
        parsed = [
            get(each, of="scales") for each in (priors if several else [priors])
        ]
        labelled = {_label(prior): prior for prior in parsed}
        if len(labelled) < len(parsed):  # numbers alone do not tell them apart
            labelled = {repr(prior): prior for prior in parsed}
    if not labelled:
        raise invalid("priors", priors, "at least one prior")
    return labelled


def _label(prior: ScalePrior) -> str:
    """Returns the class and the numbers of a prior."""
    numbers = ", ".join(
        f"{name}={value:g}"
        for name, value in prior.get_config().items()
        if isinstance(value, float)
    )
    name = type(prior).__name__
    return f"{name}({numbers})" if numbers else name
