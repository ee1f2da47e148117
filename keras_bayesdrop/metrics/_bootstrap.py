# SPDX-License-Identifier: Apache-2.0
"""Bootstrap intervals of metrics, by resampling rows."""

from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
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


def reflected_interval(
    values: Float64Array, value: float, confidence: float
) -> tuple[float, float]:
    """Returns the basic bootstrap interval, cut at 0.

        [2 * value - high, 2 * value - low]

    with the ends of `percentile_interval`. It corrects the bias of sums of
    absolute values: what noise adds to them, a resample adds once more.
    """
    low, high = percentile_interval(values, confidence)
    return max(2 * value - high, 0.0), max(2 * value - low, 0.0)


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
