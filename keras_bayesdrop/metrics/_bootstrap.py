# SPDX-License-Identifier: Apache-2.0
"""Bootstrap intervals of metrics, by resampling rows."""

from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.metrics._measures import Measure
from keras_bayesdrop.metrics._statistics import Statistic

# Numbers of resamples that are in memory at a time: 8 MB each array.
_NUMBERS = 2**20


def resampled(
    statistics: Mapping[str, Statistic],
    num_rows: int,
    num_resamples: int,
    seed: int = 0,
) -> dict[str, Float64Array]:
    """Returns metrics of resampled rows, `[resamples]` each.

    A resample draws as many rows as there are, with replacement. All metrics
    see the same resamples. The memory does not grow with `num_resamples`,
    but for the result.

    Args:
        statistics: The metrics by name.
        num_rows: Number of rows.
        num_resamples: Number of resamples.
        seed: Seed of the resamples.
    """
    values: dict[str, list[Float64Array]] = {name: [] for name in statistics}
    largest = max((each.size for each in statistics.values()), default=1)
    for counts in _draw(num_rows, num_resamples, largest, seed):
        for name, statistic in statistics.items():
            values[name].append(statistic(counts))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def intervals(
    measures: Mapping[str, Measure],
    num_rows: int,
    num_resamples: int,
    confidence: float,
) -> dict[str, tuple[float, float]]:
    """Returns the bootstrap interval of each metric.

    Args:
        measures: The metrics by name.
        num_rows: Number of rows.
        num_resamples: Number of resamples.
        confidence: Probability of the intervals.
    """
    statistics = {name: each.statistic for name, each in measures.items()}
    draws = resampled(statistics, num_rows, num_resamples)
    ends = {}
    for name, measure in measures.items():
        ends[name] = percentile_interval(draws[name], confidence)
        if hasattr(measure.statistic, "by_chance"):
            generator = np.random.default_rng(0)
            chance = [
                measure.statistic.by_chance(generator)
                for _ in range(num_resamples)
            ]
            ends[name] = _distance_interval(
                measure.value, ends[name], np.array(chance), confidence
            )
    return ends


def percentile_interval(
    values: Float64Array, confidence: float
) -> tuple[float, float]:
    """Returns the central interval of resampled values.

    Resamples in which the metric is not defined are left out.
    """
    defined = values[~np.isnan(values)]
    if not defined.size:
        return np.nan, np.nan
    tails = ((1 - confidence) / 2, (1 + confidence) / 2)
    # Without interpolation: some values may be infinite.
    low, high = np.quantile(defined, tails, method="inverted_cdf")
    return float(low), float(high)


def _distance_interval(
    value: float,
    ends: tuple[float, float],
    chance: Float64Array,
    confidence: float,
) -> tuple[float, float]:
    """Returns the interval of a sum of absolute gaps.

    Chance makes the sum larger, and resampling does so once more. The basic
    bootstrap interval, `[2 * value - high, 2 * value - low]`, corrects that
    where the gaps are large. Where a calibrated model shows as large a sum by
    chance, the lower end is 0.

    Args:
        value: The metric.
        ends: The percentile interval `(low, high)`.
        chance: The metric of calibrated models.
        confidence: Probability of the interval.
    """
    low, high = ends
    lower, upper = (max(2 * value - end, 0.0) for end in (high, low))
    usual = float(np.quantile(chance, confidence)) >= value
    return 0.0 if usual else lower, upper


def _draw(
    num_rows: int, num_resamples: int, largest: int, seed: int
) -> Iterator[Float64Array]:
    """Yields how often resamples take each row, `[some, rows]`."""
    generator = np.random.default_rng(seed)
    at_once = max(1, _NUMBERS // largest)
    for begin in range(0, num_resamples, at_once):
        some = min(at_once, num_resamples - begin)
        taken = generator.integers(num_rows, size=(some, num_rows))
        taken += num_rows * np.arange(some)[:, None]
        counts = np.bincount(taken.reshape(-1), minlength=some * num_rows)
        yield counts.reshape(some, num_rows).astype(np.float64)
