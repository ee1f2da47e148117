# SPDX-License-Identifier: Apache-2.0
"""Makes the result of a prediction by samples."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop.engines import Engine
from keras_bayesdrop.engines import assign_steps
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Totals
from keras_bayesdrop.prediction.methods.sampling import Sampled
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.drawer import Drawer
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats


def engine_steps(
    plan: Plan, engine: Engine, reason: str
) -> tuple[EngineStep, ...]:
    """Returns which engine ran each step of a plan, and why."""
    return tuple(
        EngineStep(
            name=each.step.path or each.step.kind,
            engine=each.engine,
            reason=each.reason,
        )
        for each in assign_steps(plan, engine, reason)
    )


def predictives(
    job: Job,
    choices: Sampled,
    collected: Sequence[Collected],
    method: str,
    steps: tuple[EngineStep, ...],
    totals: Totals,
    drawer: Drawer,
) -> list[Predictive]:
    """Makes the result of each output.

    Args:
        job: The prediction.
        choices: How samples were drawn.
        collected: The statistics of each output.
        method: Name of the method.
        steps: Which engine ran what.
        totals: Rows, batches and time.
        drawer: Has counted what it ran.
    """
    drawn = int(collected[0].num_samples.sum())
    stats = Stats(
        num_samples=job.request.num_samples,
        num_rows=totals.num_rows,
        seed=job.request.seed,
        masks=choices.masks,
        method=method,
        engine=steps,
        seconds=totals.seconds,
        samples_per_second=drawn / totals.seconds,
        batch_size=totals.largest_batch,
        num_replicas=job.request.num_replicas,
        chains=drawer.chain_work(),
        prefix_runs=drawer.tally.prefix_runs,
    )
    return [
        _predictive(head, each, stats, job, choices.stops_early)
        for head, each in zip(job.heads, collected, strict=True)
    ]


def _predictive(
    head: Any, collected: Collected, stats: Stats, job: Job, adaptive: bool
) -> Predictive:
    moments = collected.moments
    sampled = moments.sampled_variance
    if sampled is not None:
        stats = dataclasses.replace(
            stats, variance_reduction=_ratio(moments.variance, sampled)
        )
    # Samples of masks from a table are not balanced, whatever was asked for.
    balanced = moments.mean_variance is not None
    stats = dataclasses.replace(
        stats,
        draws="balanced" if balanced else "independent",
        # An output may have several rows for one of `x`.
        num_rows=len(moments.mean),
    )
    return Predictive(
        head=head,
        mean=moments.mean,
        variance=moments.variance,
        stats=stats,
        samples=collected.samples,
        quantile_levels=job.request.quantiles,
        quantile_values=collected.quantiles,
        mean_entropy=moments.mean_entropy,
        vote_counts=moments.vote_counts,
        sampled_variance=sampled,
        num_samples_used=collected.num_samples if adaptive else None,
        noise_variance=moments.noise_variance,
        noise_samples=collected.noise_samples,
        mean_variance=moments.mean_variance,
    )


def _ratio(whole: Any, part: Any) -> float:
    """Returns a ratio of means; infinite if nothing is left."""
    above, below = (float(np.mean(x, dtype=np.float64)) for x in (whole, part))
    return above / below if below else math.inf
