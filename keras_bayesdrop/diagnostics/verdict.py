# SPDX-License-Identifier: Apache-2.0
"""Sentences about an evaluation that its numbers support.

A claim is made only if the bootstrap interval supports it and chance alone
does not explain the numbers. Without resamples there are no claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from keras_bayesdrop import metrics
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.plots._binomial import binomial_band
from keras_bayesdrop.plots._inputs import uncertainty_of
from keras_bayesdrop.plots._inputs import usual_quantity
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of
from keras_bayesdrop.predictive.sample_noise import knows_noise


@dataclass(frozen=True)
class Estimate:
    """A metric and its bootstrap interval.

    Attributes:
        value: The metric of all rows.
        lower: Lower end of the interval; NaN if there were no resamples.
        upper: Upper end of the interval; NaN likewise.
    """

    value: float
    lower: float
    upper: float


def verdict_of(
    p: Predictive,
    labels: Float64Array,
    estimates: Mapping[str, Estimate],
    level: float,
    confidence: float,
) -> tuple[str, ...]:
    """Returns sentences that answer whether to trust a model.

    Args:
        p: The prediction.
        labels: The truth.
        estimates: The metrics.
        level: Probability of the intervals of the prediction.
        confidence: Probability of the intervals of the metrics.
    """
    if np.isnan(next(iter(estimates.values())).lower):
        return ("No rows were resampled, so nothing is said about chance.",)
    if p.head.observation == "number":
        first = _intervals(p, estimates["interval_coverage"], level, confidence)
        ranking = estimates.get("error_correlation")
        neutral, gain = 0.0, "errors are larger where it is less sure"
    else:
        first = _confidence(p, labels.size, estimates, confidence)
        ranking = estimates.get("uncertainty_auroc")
        neutral, gain = 0.5, "wrong answers are less sure than right ones"
    sentences = [first, *_ranking(ranking, neutral, gain)]
    if ranking is not None and ranking.lower > neutral:
        sentences += _surer_half(p, labels)
    return tuple(sentences)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _between(estimate: Estimate, confidence: float) -> str:
    return (
        f"({100 * confidence:.4g} % interval {_percent(estimate.lower)} to "
        f"{_percent(estimate.upper)})"
    )


def _intervals(
    p: Predictive, coverage: Estimate, level: float, confidence: float
) -> str:
    said = f"{100 * level:.4g} %"
    text = (
        f"Intervals of {said} hold {_percent(coverage.value)} of the targets "
        f"{_between(coverage, confidence)}: "
    )
    trials = _trials(coverage, len(p), p.mean.size, confidence)
    low, high = binomial_band(trials, level, confidence)
    if coverage.upper < level and coverage.value < low:
        text += "too narrow, the model is overconfident."
        if not knows_noise(p):
            text += (
                " They leave out the noise of observations, which is not "
                "known; `calibrate.noise_precision` fits it."
            )
    elif coverage.lower > level and coverage.value > high:
        text += "too wide, the model is underconfident."
    else:
        text += f"these rows do not contradict {said}."
    return text


def _confidence(
    p: Predictive,
    num_labels: int,
    estimates: Mapping[str, Estimate],
    confidence: float,
) -> str:
    right, gap = estimates["accuracy"], estimates["overconfidence"]
    said = estimates["confidence"].value
    text = (
        f"On average the model says {_percent(said)} and is right "
        f"{_percent(right.value)} of the time {_between(right, confidence)}: "
    )
    trials = _trials(right, len(p), num_labels, confidence)
    low, high = binomial_band(trials, min(said, 1.0), confidence)
    if gap.lower > 0 and right.value < low:
        return f"{text}overconfident."
    if gap.upper < 0 and right.value > high:
        return f"{text}underconfident."
    return f"{text}neither over- nor underconfident beyond chance."


def _trials(
    share: Estimate, num_rows: int, num_labels: int, confidence: float
) -> int:
    """Returns how many independent trials a share is worth.

    Labels of one row may depend on each other. Independent labels would count
    each, and equal ones once per row; the width of the interval says which.
    """
    reach = NormalDist().inv_cdf((1 + confidence) / 2)
    error = (share.upper - share.lower) / (2 * reach)
    if error == 0:
        return num_rows
    trials = share.value * (1 - share.value) / error**2
    return int(np.clip(trials, num_rows, num_labels))


def _ranking(ranking: Estimate | None, neutral: float, gain: str) -> list[str]:
    if ranking is None:
        return []
    if ranking.lower > neutral:
        return [f"Its uncertainty is informative: {gain}."]
    if ranking.upper < neutral:
        return ["Its uncertainty misleads: it is surer where it errs more."]
    return [f"These rows do not show that {gain}."]


def _surer_half(p: Predictive, labels: Float64Array) -> list[str]:
    """Describes these rows, without a claim about others."""
    kind = observation_of(p)
    each = np.asarray(kind.losses(p, labels), np.float64)
    loss = each.reshape(len(p), -1).mean(axis=1)
    curve = metrics.risk_coverage(loss, uncertainty_of(p, usual_quantity(p)))
    half = float(curve.risk[max(len(p) // 2, 1) - 1])
    every = float(loss.mean())
    if p.head.observation == "number":
        shown = [f"{np.sqrt(risk):.3g}" for risk in (half, every)]
        what = "a root mean squared error"
    else:
        shown, what = [_percent(half), _percent(every)], "errors"
    return [
        f"The surer half of these rows has {what} of {shown[0]}, all rows "
        f"{shown[1]}."
    ]
