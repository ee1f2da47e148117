# SPDX-License-Identifier: Apache-2.0
"""The prediction of an ensemble: a mixture of those of its networks.

Every network weighs the same, whatever the number of its samples:

    mean    = sum{ mean[k] : k } / M
    within  = sum{ variance[k] : k } / M       with T in the denominator
    between = sum{ (mean[k] - mean)**2 : k } / M

`within + between` is the variance of the mixture of all samples. `variance`
divides it by `1 - sum{ w[i]**2 : i }`, where sample `i` has the weight
`w[i] = 1 / (M * T[k])`: if all networks have `T` samples, that is the
denominator `M * T - 1` of the unbiased variance of all samples together. Of
balanced draws it adds the variance of the mean instead, and divides for the
networks without noise alone.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive.quantiles import quantiles_of
from keras_bayesdrop.predictive.quantities import average
from keras_bayesdrop.predictive.quantities import biased_variance
from keras_bayesdrop.predictive.quantities import unbiased_balanced_mixture
from keras_bayesdrop.predictive.quantities import unbiased_mixture
from keras_bayesdrop.predictive.quantities import variance_between
from keras_bayesdrop.predictive.samples import fit_type
from keras_bayesdrop.predictive.select import quantities_of
from keras_bayesdrop.predictive.stats import EngineStep
from keras_bayesdrop.predictive.stats import Stats

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive

POINT = "point"


def mix(
    members: Sequence["Predictive"],
    quantiles: Sequence[float] | None = None,
    keep_samples: bool = True,
) -> dict[str, Any]:
    """Returns the fields of the mixture of some predictions.

    Args:
        members: Predictions of the same rows by different networks.
        quantiles: Levels of quantiles to store, which need all samples.
        keep_samples: Whether to keep the samples, if all members have them.
    """
    levels = check_levels(quantiles, "quantiles")
    _check_members(members)
    count = len(members)
    means = [p.mean for p in members]
    mean = average(means)
    within = average([biased_variance(p._summary) for p in members])
    between = variance_between(means)
    # The squared Monte Carlo error of the mean, all networks taken as they are.
    errors = sum(np.square(p.mc_error.astype(np.float64)) for p in members)
    error = np.asarray(errors) / count**2
    variance = within + between
    method = _method(members)
    balanced = any(p.mean_variance is not None for p in members)
    if method != "sampling":
        variance = variance + np.asarray(sum(map(_of_mean, members))) / count**2
    elif balanced:
        points = sum(p.stats.method == POINT for p in members)
        of_means = [_of_mean(p) for p in members]
        variance = unbiased_balanced_mixture(variance, of_means, points)
    else:
        counts = [_samples_of(p) for p in members]
        variance = unbiased_mixture(variance, counts)
    stats, used = _stats(members, method)
    drawn = stats.num_samples if used is None else _per_row(used, mean.ndim)
    dtype = np.result_type(*(p.mean.dtype for p in members))
    fields = {
        "head": members[0].head,
        "mean": mean.astype(dtype),
        "variance": fit_type(variance, dtype),
        "stats": stats,
        "within": fit_type(within, dtype),
        "between": fit_type(between, dtype),
        "num_samples_used": used,
    }
    if stats.num_samples:
        fields["sampled_variance"] = fit_type(error * drawn, dtype)
    for name in ("mean_entropy", "noise_variance"):
        arrays = [getattr(p, name) for p in members]
        if all(each is not None for each in arrays):
            fields[name] = fit_type(average(arrays), dtype)
    if method == "sampling" and used is None:
        fields["vote_counts"] = _votes(members)
    if keep_samples or levels is not None:
        samples = noise = None
        if used is None:
            samples = _stacked(members, "samples", "mean")
            noise = _stacked(members, "noise_samples", "noise_variance")
        if keep_samples:
            fields["samples"], fields["noise_samples"] = samples, noise
        if levels is not None:
            fields["quantile_levels"] = levels
            fields["quantile_values"] = _quantiles(samples, levels)
    return fields


def _check_members(members: Sequence["Predictive"]) -> None:
    """Raises unless predictions can be mixed."""
    if not members or (len(members) == 1 and members[0].stats.method == POINT):
        raise BayesdropError(
            "An ensemble of one network without noise has no variance. "
            "Expected at least two networks, or noise. Received: "
            f"{len(members)} predictions"
        )
    first = members[0]
    for number, p in enumerate(members):
        if (p.head, p.mean.shape) != (first.head, first.mean.shape):
            raise BayesdropError(
                "The networks of an ensemble predict different things. "
                f"Expected head={first.head} and outputs of shape "
                f"{first.mean.shape}, as of network 0. Received: "
                f"head={p.head} and shape {p.mean.shape} of network {number}"
            )
    sampled = {p.stats.num_samples for p in members if p.stats.method != POINT}
    methods = {p.stats.method for p in members} - {POINT}
    if len(sampled) > 1 or len(methods) > 1:
        raise BayesdropError(
            "The networks of an ensemble were predicted in different ways. "
            "Expected the same method and number of samples for all. "
            f"Received: methods {sorted(methods)}, numbers of samples "
            f"{sorted(sampled)}"
        )


def _method(members: Sequence["Predictive"]) -> str:
    """Returns the method of the members that have noise."""
    noisy = [p.stats.method for p in members if p.stats.method != POINT]
    return noisy[0] if noisy else "sampling"


def _of_mean(p: "Predictive") -> Any:
    """Returns the variance of the mean of a member, without bias."""
    if p.mean_variance is not None:
        return p.mean_variance.astype(np.float64)
    return np.square(p.mc_error.astype(np.float64))


def _samples_of(p: "Predictive") -> Any:
    """Returns the samples of a member; a network without noise has one."""
    return 1 if p.stats.method == POINT else p._counts(p.mean.ndim)


def _copies(members: Sequence["Predictive"]) -> int:
    """Returns how often the output of a network without noise counts."""
    return max([1, *(p.stats.num_samples for p in members)])


def _stats(members: Sequence["Predictive"], method: str) -> tuple[Stats, Any]:
    """Returns the record of the mixture, and the samples of each row."""
    copies = _copies(members)
    used = None
    if any(p.num_samples_used is not None for p in members):
        rows = len(members[0].mean)
        used = np.zeros(rows, np.int64)
        for p in members:
            drawn = p.num_samples_used
            used += copies if drawn is None else drawn
    several = method != "moments"
    steps = tuple(
        EngineStep(name=f"{number}/{step.name}", **_rest(step))
        for number, p in enumerate(members)
        for step in p.stats.engine
    )
    chains = tuple(
        dataclasses.replace(chain, name=f"{number}/{chain.name}")
        for number, p in enumerate(members)
        for chain in p.stats.chains
    )
    first = next(
        (p.stats for p in members if p.stats.method != POINT), members[0].stats
    )
    stats = dataclasses.replace(
        first,
        num_samples=len(members) * copies if several else 0,
        method=method,
        engine=steps,
        chains=chains,
        prefix_runs=_total([p.stats.prefix_runs for p in members]),
        seconds=_total([p.stats.seconds for p in members]),
        samples_per_second=None,
        variance_reduction=None,
        num_members=len(members),
    )
    return stats, used


def _rest(step: EngineStep) -> dict[str, str]:
    return {"engine": step.engine, "reason": step.reason}


def _total(numbers: Sequence[Any]) -> Any:
    """Returns the sum of numbers; `None` if one of them is not known."""
    return None if None in numbers else sum(numbers)


def _votes(members: Sequence["Predictive"]) -> Any:
    """Returns the votes of all samples, a point counting as so many."""
    copies = _copies(members)
    votes: Any = 0
    for p in members:
        if p.vote_counts is None:
            return None
        times = copies if p.stats.method == POINT else 1
        votes = votes + times * np.asarray(p.vote_counts)
    return votes


def _stacked(
    members: Sequence["Predictive"], name: str, of_points: str
) -> Array | None:
    """Returns the samples of all members, if they were kept.

    Args:
        members: The predictions.
        name: The field that holds the samples.
        of_points: The field of a network without noise that stands for them.
    """
    copies = _copies(members)
    parts = []
    for p in members:
        part = getattr(p, of_points if p.stats.method == POINT else name)
        if part is not None and p.stats.method == POINT:
            part = np.broadcast_to(part, (copies, *part.shape))
        parts.append(part)
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _quantiles(samples: Array | None, levels: Sequence[float]) -> Array:
    if samples is None:
        raise MissingSamplesError(
            "Quantiles of an ensemble need the samples of its networks. "
            "Expected predictions with samples, as many for every row. "
            "Received: samples=None"
        )
    return np.asarray(quantiles_of(samples, levels))


def _per_row(counts: Any, axes: int) -> Any:
    return counts.reshape(-1, *(1,) * (axes - 1))


def point(
    head: Any, stats: Stats, mean: Array, noise_variance: Array | None = None
) -> dict[str, Any]:
    """Returns the fields of a prediction by one network without noise.

    Args:
        head: The head of the output.
        stats: The record.
        mean: Array `[rows, outputs]`, probabilities where the head has some.
        noise_variance: Array `[rows, outputs]` of learned observation noise.
    """
    own = quantities_of(head)
    fields = {
        "head": head,
        "mean": mean,
        "variance": np.zeros_like(mean),
        "stats": dataclasses.replace(stats, method=POINT),
        "noise_variance": noise_variance,
    }
    if own.has_information:
        fields["mean_entropy"] = own.entropy(mean).astype(mean.dtype)
        fields["vote_counts"] = own.count_votes(mean[None])
    return fields
