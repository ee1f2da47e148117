# SPDX-License-Identifier: Apache-2.0
"""Checks that the parts of a prediction fit together."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.stats import Stats

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.base import Quantities
    from keras_bayesdrop.predictive.result import Predictive

# Arguments that a head has taken over, and what to write instead.
_OLD_KEYWORDS = {
    "task": "head='regression', head='classification' or head='binary'",
    "noise_precision": "head=Regression(noise_precision=4.0)",
}


def check_keywords(unknown: Iterable[str]) -> None:
    """Raises for keywords that a `Predictive` does not take."""
    for name in unknown:
        if name in _OLD_KEYWORDS:
            raise BayesdropError(
                f"`Predictive` has no argument `{name}`. Expected "
                f"{_OLD_KEYWORDS[name]}. Received: `{name}`"
            )
        raise TypeError(
            f"`Predictive` got an unexpected keyword argument `{name}`"
        )


def check_head(head: Head | str) -> Head:
    """Returns a head by its name or object."""
    if head is None:
        raise invalid("head", head, f"one of {tuple(heads.HEADS)} or a head")
    known: Head = heads.get(head)
    return known


def default_stats(p: "Predictive") -> Stats:
    """Returns a record with the counts that the arrays of a prediction show."""
    num_rows = len(p.mean) if p.mean.ndim else 0
    if p.samples is not None:
        return Stats(num_samples=len(p.samples), num_rows=num_rows)
    if p.num_samples_used is not None and p.num_samples_used.size:
        most = int(p.num_samples_used.max())
        return Stats(num_samples=most, num_rows=num_rows)
    counted = ("vote_counts", "sampled_variance", "mean_variance")
    if any(getattr(p, name) is not None for name in counted):
        raise BayesdropError(
            "The number of samples is not known. Expected `stats` or "
            "`samples` beside `vote_counts`, `sampled_variance` or "
            "`mean_variance`. Received: stats=None, samples=None"
        )
    return Stats(num_samples=0, num_rows=num_rows, method="moments")


def check_fields(p: "Predictive", quantities: "Quantities") -> None:
    """Checks that the parts of a prediction fit together.

    Args:
        p: The prediction.
        quantities: Those of its head.
    """
    axes = 1 + quantities.class_axes
    if p.mean.ndim < axes:
        raise BayesdropError(
            f"Invalid shape of argument `mean`. Expected at least {axes} "
            f"axes for head={p.task!r}. Received: mean.shape={p.mean.shape}"
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
    _check_shapes(p, quantities)
    if (p.within is None) != (p.between is None):
        raise BayesdropError(
            "Invalid parts of the variance. Expected `within` and `between` "
            "together or neither. Received: one of them is None"
        )
    _check_noise(p, quantities)
    if p.mean_variance is not None and np.any(p.mean_variance < 0):
        raise BayesdropError(
            "Invalid value for argument `mean_variance`. Expected variances, "
            f"which are not negative. Received: {p.mean_variance.min()}"
        )
    if p.stats.num_rows != len(p.mean):
        raise BayesdropError(
            "Invalid value for argument `stats`. Expected "
            f"num_rows={len(p.mean)}, the length of `mean`. Received: "
            f"num_rows={p.stats.num_rows}"
        )
    _check_counts(p)
    quantities.check(p)


def _check_shapes(p: "Predictive", quantities: "Quantities") -> None:
    shape = p.mean.shape
    labels = shape[: p.mean.ndim - quantities.class_axes]
    expected = {
        "variance": shape,
        "sampled_variance": shape,
        "samples": (p.stats.num_samples, *shape),
        "quantile_values": (len(p.quantile_levels or ()), *shape),
        "mean_entropy": labels,
        "vote_counts": shape,
        "num_samples_used": shape[:1],
        "within": shape,
        "between": shape,
        "noise_variance": shape,
        "noise_samples": (p.stats.num_samples, *shape),
        "mean_variance": shape,
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


def _check_noise(p: "Predictive", quantities: "Quantities") -> None:
    """Raises unless the noise is there that the head says there is."""
    kept = p.samples is not None
    learned = quantities.has_learned_noise
    for name, wanted in (
        ("noise_variance", learned),
        ("noise_samples", learned and kept),
    ):
        values = getattr(p, name)
        if (values is not None) != wanted:
            expected = "an array" if wanted else "None"
            raise BayesdropError(
                f"Invalid value for argument `{name}`. Expected {expected} "
                f"for head={p.task!r} {'with' if kept else 'without'} samples. "
                f"Received: {'None' if values is None else 'an array'}"
            )
    if p.noise_variance is not None:
        check_variances(p.noise_variance, "noise_variance")


def check_variances(values: Array, name: str) -> None:
    """Raises unless all values are positive, finite numbers."""
    fits = (values > 0) & np.isfinite(values)
    if not np.all(fits):
        raise BayesdropError(
            f"Invalid value for argument `{name}`. Expected positive, finite "
            f"variances. Received: {np.sum(~fits)} that are not"
        )


def _check_counts(p: "Predictive") -> None:
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
