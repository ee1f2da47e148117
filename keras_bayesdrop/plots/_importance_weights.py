# SPDX-License-Identifier: Apache-2.0
"""Weights that objectives of training give to Monte Carlo samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.losses.objectives import SAMPLE_WEIGHTS
from keras_bayesdrop.plots import _style


def importance_weights(
    log_likelihood: Any, bins: int = 40, ax: Any = None
) -> Any:
    """Draws the weights that objectives of training give to samples.

    With `l_s` the log-likelihood of an example under sample `s` of the noise,
    the gradient of each objective of `MonteCarloModel` is a weighted mean of
    those of the samples:

        lower bound           w_s = 1 / S
        importance weighted   w_s = exp(l_s) / sum{ exp(l_k) : k }
        tail-adaptive         w_s = g_s / sum{ g_k : k },
                              g_s = S / (how many k have l_k >= l_s)

    The lower bound is a line; the others are histograms over all samples. If
    the importance weights peak at the line, the noise is so weak that
    importance weighting changes nothing. If they spread out to 1, a single
    sample determines the whole step.

    Args:
        log_likelihood: Array `[..., S]` in nats, with the samples on the last
            axis; or a dict from labels to arrays, of models or rates to
            compare. Tail-adaptive weights are computed from all arrays.
        bins: Positive int. Number of bars. Defaults to `40`.
        ax: Axes to draw on; `None` for those of a new figure.

    Returns:
        The axes.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(
        model,
        x,
        num_samples=10,
        method=keras_bayesdrop.Sampling(masks="independent"),
        return_samples=True,
    )
    loss = keras_bayesdrop.losses.GaussianNLL(noise_precision=4.0)
    logs = np.stack([loss.log_prob(y, draw) for draw in p.samples], axis=-1)
    keras_bayesdrop.plots.importance_weights(logs)
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          figure 1(a) and equations 16 and 17.
    """
    labelled = _labelled(log_likelihood)
    bins = check_positive_int(bins, "bins")
    ax = _style.axes_for(ax)
    samples = next(iter(labelled.values())).shape[-1]
    together = np.concatenate(list(labelled.values()))
    shown = {
        label: _weights("importance_weighted", values)
        for label, values in labelled.items()
    }
    by_rank = _weights("tail_adaptive", together)
    top = max(np.max(weights) for weights in (by_rank, *shown.values()))
    edges = np.linspace(0.0, top, bins + 1)
    ax.axvline(
        1.0 / samples,
        color=_style.GREY,
        ls="--",
        lw=1.5,
        zorder=3,
        label=f"lower bound: 1 / {samples}",
    )
    others = (_style.COLOURS[0], *_style.COLOURS[2:])
    for number, (label, weights) in enumerate(shown.items()):
        _bars(ax, weights, edges, label, others[number % len(others)])
    _bars(ax, by_rank, edges, "tail-adaptive", _style.COLOURS[1])
    ax.set_xlim(0.0, top)
    _style.dress(
        ax,
        f"Weights of {samples} samples in the gradient",
        "weight of a sample",
        "share of all samples",
    )
    ax.legend(fontsize=_style.TEXT - 1, frameon=False)
    return ax


def _weights(objective: str, log_likelihood: Float64Array) -> Float64Array:
    """Returns the weights of all samples, flat."""
    weights = SAMPLE_WEIGHTS[objective](log_likelihood)
    return np.asarray(weights, np.float64).ravel()


def _bars(
    ax: Any, weights: Float64Array, edges: Float64Array, label: str, colour: str
) -> None:
    """Draws a histogram as a translucent area."""
    counts, _ = np.histogram(weights, edges)
    ax.stairs(
        counts / len(weights),
        edges,
        fill=True,
        facecolor=(colour, 0.3),
        edgecolor=colour,
        lw=1.5,
        label=label,
    )


def _labelled(log_likelihood: Any) -> dict[str, Float64Array]:
    """Returns arrays [examples, samples] by their labels."""
    if isinstance(log_likelihood, Mapping):
        raw = {
            f"importance weighted, {label}": values
            for label, values in log_likelihood.items()
        }
    else:
        raw = {"importance weighted": log_likelihood}
    labelled: dict[str, Float64Array] = {}
    for label, values in raw.items():
        array = as_numbers("log_likelihood", values).astype(np.float64)
        if array.ndim == 0 or array.shape[-1] < 2 or not array.size:
            raise BayesdropError(
                "There are no samples to weigh. Expected an array with two "
                "samples or more on its last axis. Received: an array of "
                f"shape {array.shape}"
            )
        if not np.all(np.isfinite(array)):
            raise NonFiniteError(
                "Invalid value for argument `log_likelihood`. Expected finite "
                f"numbers. Received: {int(np.sum(~np.isfinite(array)))} of "
                f"{array.size} that are NaN or infinite"
            )
        labelled[label] = array.reshape(-1, array.shape[-1])
    sizes = {array.shape[-1] for array in labelled.values()}
    if len(sizes) != 1:
        raise BayesdropError(
            "Weights of different numbers of samples are not comparable. "
            "Expected at least one array, all with the same size of the last "
            f"axis. Received: sizes {sorted(sizes)}"
        )
    return labelled
