# SPDX-License-Identifier: Apache-2.0
"""Quantiles of a binomial share."""

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array

# Counts are summed within this many standard deviations of the mean, plus a
# margin for Poisson-like tails. Beyond, the probability is below 1e-30.
_REACH = 12.0
_MARGIN = 60


def binomial_band(
    trials: int, probability: float, level: float
) -> tuple[float, float]:
    """Returns the ends of the central interval of a binomial share.

    With `k ~ Binomial(trials, probability)` they are the quantiles of
    `k / trials` at `(1 - level) / 2` and `(1 + level) / 2`. The share of a
    calibrated model lies between them with a probability of at least `level`.

    Args:
        trials: Positive int.
        probability: Float in `[0, 1]`.
        level: Float in `(0, 1)`.
    """
    if probability <= 0.0 or probability >= 1.0:
        certain = float(probability >= 1.0)
        return certain, certain
    mean = trials * probability
    reach = _REACH * np.sqrt(mean * (1.0 - probability)) + _MARGIN
    first = max(int(mean - reach), 0)
    last = min(int(mean + reach), trials)
    count = np.arange(first, last + 1, dtype=np.float64)
    # p(k + 1) / p(k) needs no factorials, however many trials there are.
    odds = np.log(probability) - np.log1p(-probability)
    steps = np.log((trials - count[:-1]) / (count[:-1] + 1.0)) + odds
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    below: Float64Array = np.cumsum(np.exp(logs - logs.max()))
    below /= below[-1]
    tails = ((1.0 - level) / 2, (1.0 + level) / 2)
    low, high = (count[np.searchsorted(below, tail)] for tail in tails)
    return float(low / trials), float(high / trials)
