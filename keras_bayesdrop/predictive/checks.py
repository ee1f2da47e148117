# SPDX-License-Identifier: Apache-2.0
"""Whether the parts of a prediction fit together."""

import math
from typing import Any

import numpy as np

from keras_bayesdrop.errors import BayesdropError

TASKS = ("regression", "classification", "binary")

# Probabilities may leave [0, 1] by the rounding of a float16 softmax.
_PROBABILITY_SLACK = 2e-3


def check_task(task: str) -> None:
    """Raises if there is no such task."""
    if task not in TASKS:
        raise BayesdropError(
            f"Invalid value for argument `task`. Expected one of {TASKS}. "
            f"Received: task={task!r}"
        )


def check_fields(p: Any) -> None:
    """Checks that the parts of a prediction fit together."""
    axes = 2 if p.task == "classification" else 1
    if p.mean.ndim < axes:
        raise BayesdropError(
            f"Invalid shape of argument `mean`. Expected at least {axes} "
            f"axes for task={p.task!r}. Received: mean.shape={p.mean.shape}"
        )
    if p.stats.sampled and p.stats.num_samples < 2:
        raise BayesdropError(
            "Invalid number of samples. Expected at least 2, since the "
            "variance of one is not defined. Received: "
            f"num_samples={p.stats.num_samples}"
        )
    if (p.quantile_levels is None) != (p.quantile_values is None):
        raise BayesdropError(
            "Invalid quantiles. Expected `quantile_levels` and "
            "`quantile_values` together or neither. Received: "
            f"quantile_levels={p.quantile_levels}"
        )
    shape = p.mean.shape
    labels = shape[:-1] if p.task == "classification" else shape
    expected = {
        "variance": shape,
        "sampled_variance": shape,
        "samples": (p.stats.num_samples, *shape),
        "quantile_values": (len(p.quantile_levels or ()), *shape),
        "mean_entropy": labels,
        "vote_counts": shape,
        "num_samples_used": shape[:1],
    }
    for name, wanted in expected.items():
        array = getattr(p, name)
        if array is not None and array.shape != wanted:
            raise BayesdropError(
                f"Invalid shape of argument `{name}`. Expected {wanted}, to "
                f"fit mean.shape={shape} and "
                f"num_samples={p.stats.num_samples}. Received: "
                f"{name}.shape={array.shape}"
            )
    if p.stats.num_rows != len(p.mean):
        raise BayesdropError(
            "Invalid value for argument `stats`. Expected "
            f"num_rows={len(p.mean)}, the length of `mean`. Received: "
            f"num_rows={p.stats.num_rows}"
        )
    _check_counts(p)
    if p.task == "regression":
        _check_precision(p.noise_precision)
    else:
        _check_probabilities(p)


def _check_counts(p: Any) -> None:
    used, most = p.num_samples_used, p.stats.num_samples
    if used is None:
        return
    whole = used.dtype.kind in "iu"
    if not whole or np.any(used < 2) or np.any(used > most):
        raise BayesdropError(
            "Invalid value for argument `num_samples_used`. Expected integers "
            f"from 2 to num_samples={most}. Received: num_samples_used={used}"
        )
    if p.samples is not None:
        raise BayesdropError(
            "Invalid samples. Expected `samples` or `num_samples_used`, not "
            "both: an array of samples has as many for every row. Received: "
            f"samples.shape={p.samples.shape}"
        )


def _check_precision(tau: float | None) -> None:
    if tau is not None and not 0 < tau < math.inf:
        raise BayesdropError(
            "Invalid value for argument `noise_precision`. Expected a "
            "positive float, the inverse of the noise variance. Received: "
            f"noise_precision={tau}"
        )


def _check_probabilities(p: Any) -> None:
    if p.noise_precision is not None:
        raise BayesdropError(
            "Invalid value for argument `noise_precision`. Expected None "
            f"for task={p.task!r}: only a regression has observation noise. "
            f"Received: noise_precision={p.noise_precision}"
        )
    slack = _PROBABILITY_SLACK
    if not np.all((p.mean >= -slack) & (p.mean <= 1 + slack)):
        raise BayesdropError(
            "Invalid value for argument `mean`. Expected probabilities in "
            f"[0, 1] for task={p.task!r}. Received: values from "
            f"{p.mean.min()} to {p.mean.max()}"
        )
