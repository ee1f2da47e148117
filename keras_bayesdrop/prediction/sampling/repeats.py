# SPDX-License-Identifier: Apache-2.0
"""Tells which samples repeat others, and which are balanced."""

import math

from keras_bayesdrop._core.warn import warn_user
from keras_bayesdrop.noise.draws import MaskRule
from keras_bayesdrop.plan import Plan


def warn_of_repeats(plan: Plan, name: str, num_samples: int) -> None:
    """Warns if there are more samples than different ones.

    Args:
        plan: The plan that is sampled.
        name: Name of the model.
        num_samples: Number of samples.
    """
    period = period_of(plan)
    if period is None or num_samples <= period:
        return
    unequal = (
        f" {num_samples} is no multiple of {period}, so that some masks count "
        "more than others."
        if num_samples % period
        else ""
    )
    warn_user(
        f"Nothing in model `{name}` is random but the choice of a mask from a "
        f"table: samples from number {period} on repeat those before, and "
        f"take time only.{unequal} Pass num_samples={period}."
    )


def period_of(plan: Plan) -> int | None:
    """Returns after how many samples all repeat, or `None` if they do not."""
    periods = [
        site.noise.period for site in plan.sites if site.path in plan.chosen
    ]
    if not periods or None in periods:
        return None
    return math.lcm(*(period for period in periods if period is not None))


def is_balanced(plan: Plan, masks: MaskRule) -> bool:
    """Returns whether the samples of a plan are balanced in blocks of 16.

    They are not if all masks come from tables: these have an order of their
    own, and words have no part in it.
    """
    return masks.balanced and period_of(plan) is None
