# SPDX-License-Identifier: Apache-2.0
"""Metrics as functions of row counts, for many resamples at once.

A resample takes row `i` of `n` rows `counts[i]` times, and as many rows in
all. A statistic maps the counts of many resamples, `[resamples, rows]`, to the
metric of each, and equals the metric of the repeated rows. Where a row has
several labels or outputs, it is taken with all of them.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.metrics._calibration_curve import area_of

Counts = Float64Array
Numbers = npt.NDArray[np.intp]


class Statistic(Protocol):
    """A metric of resampled rows.

    Attributes:
        size: Numbers that one resample holds in memory at a time.
    """

    size: int

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the metric of each resample; NaN where it is undefined."""


class Distance(Statistic, Protocol):
    """A sum of absolute gaps, which chance alone makes larger than 0."""

    def by_chance(self, generator: np.random.Generator) -> float:
        """Draws the metric of a calibrated model, on all rows."""


class Mean:
    """Mean of the values of each row, or the root of the mean.

    Args:
        values: Array `[rows, ...]`, of which a row counts with its mean.
        root: Whether to take the square root of the mean.
    """

    def __init__(self, values: npt.ArrayLike, root: bool = False) -> None:
        array = np.asarray(values, np.float64)
        rows = array.reshape(len(array), -1).mean(axis=1)
        self.size = rows.size
        self._endless = np.isposinf(rows)
        # 0 * inf is NaN; a row that is not taken must not count.
        self._values = np.where(self._endless, 0.0, rows)
        self._root = root

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the mean of each resample."""
        mean = counts @ self._values / self.size
        mean[counts[:, self._endless].any(axis=1)] = np.inf
        return np.sqrt(mean) if self._root else np.asarray(mean)


class BinnedGaps:
    """Gap of confidence and accuracy in each bin, its absolute value summed.

    Args:
        bins: Number of the bin of each label, `[rows, ...]`.
        confidence: Confidence in each label, of the same shape.
        right: 1 for each right label, else 0.
        num_bins: Number of bins.
    """

    def __init__(
        self,
        bins: Numbers,
        confidence: Float64Array,
        right: Float64Array,
        num_bins: int,
    ) -> None:
        self.size = bins.size
        self._repeat = bins.size // len(bins)
        self._bins = bins.reshape(-1)
        self._confidence = confidence.reshape(-1)
        self._gaps = (right - confidence).reshape(-1)
        self._num_bins = num_bins

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the sum of each resample."""
        weights = np.repeat(counts, self._repeat, axis=1) * self._gaps
        sums = _sum_bins(self._bins, weights, self._num_bins)
        return np.asarray(np.abs(sums).sum(axis=1) / self.size)

    def by_chance(self, generator: np.random.Generator) -> float:
        """Draws labels that are right as often as the model says."""
        return _chance_gaps(self._bins, self._confidence, generator)


class MassGaps:
    """The same as `BinnedGaps`, in bins of equal mass.

    The bins are those of the resample.

    Args:
        confidence: Confidence in each label, `[rows, ...]`.
        right: 1 for each right label, else 0.
        num_bins: Number of bins.
    """

    def __init__(
        self, confidence: Float64Array, right: Float64Array, num_bins: int
    ) -> None:
        self.size = confidence.size
        self._repeat = confidence.size // len(confidence)
        self._confidence = confidence.reshape(-1)
        self._ties = _Ties(self._confidence)
        self._gaps = (right - confidence).reshape(-1)
        self._num_bins = num_bins
        self._bins = self._bin_numbers(np.ones((1, self.size)))[0]

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the sum of each resample."""
        counts = np.repeat(counts, self._repeat, axis=1)
        bins = self._bin_numbers(counts)
        sums = _sum_bins(bins, counts * self._gaps, self._num_bins)
        return np.asarray(np.abs(sums).sum(axis=1) / self.size)

    def by_chance(self, generator: np.random.Generator) -> float:
        """Draws labels that are right as often as the model says."""
        return _chance_gaps(self._bins, self._confidence, generator)

    def _bin_numbers(self, counts: Counts) -> Numbers:
        """Returns the bin of each label, of which `counts` are taken."""
        below = _before(self._ties.sums(counts))[:, self._ties.group]
        # An edge of rank r lies below a value if r values do.
        bins = below.astype(np.intp) * self._num_bins // self.size
        return np.minimum(bins, self._num_bins - 1)


class CoverageArea:
    """Area between a calibration curve and the diagonal.

    Args:
        first: Number of the first level that holds each target,
            `[rows, ...]`, as of `first_levels`.
        levels: Increasing levels.
    """

    def __init__(self, first: Numbers, levels: Float64Array) -> None:
        self.size = first.size
        self._repeat = first.size // len(first)
        self._first = first.reshape(-1)
        self._levels = levels

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the area of each resample."""
        weights = np.repeat(counts, self._repeat, axis=1)
        number = _sum_bins(self._first, weights, self._levels.size + 1)
        observed = np.cumsum(number[:, :-1], axis=1) / self.size
        return area_of(self._levels, observed)

    def by_chance(self, generator: np.random.Generator) -> float:
        """Draws targets that intervals hold as often as they say."""
        reach = np.sort(generator.random(self.size))
        observed = np.searchsorted(reach, self._levels, "right") / self.size
        return float(area_of(self._levels, observed))


class Auroc:
    """Area under the ROC curve of uncertainty as a detector of wrong labels.

    Args:
        wrong: Flags `[rows, ...]`.
        uncertainty: Array of the same shape.
    """

    def __init__(
        self, wrong: npt.NDArray[np.bool_], uncertainty: Float64Array
    ) -> None:
        self.size = wrong.size
        self._repeat = wrong.size // len(wrong)
        self._wrong = wrong.reshape(-1)
        self._ties = _Ties(uncertainty.reshape(-1))

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the area of each resample."""
        counts = np.repeat(counts, self._repeat, axis=1)
        wrong = self._ties.sums(counts * self._wrong)
        right = self._ties.sums(counts * ~self._wrong)
        won = np.sum(wrong * (_before(right) + right / 2), axis=1)
        pairs = wrong.sum(axis=1) * right.sum(axis=1)
        return np.asarray(won / np.where(pairs > 0, pairs, np.nan))


class Aurc:
    """Area under the risk-coverage curve.

    Args:
        loss: Loss of each row.
        uncertainty: Uncertainty of each row.
    """

    def __init__(self, loss: Float64Array, uncertainty: Float64Array) -> None:
        self.size = loss.size
        self._loss = loss
        self._ties = _Ties(uncertainty)
        numbers = np.arange(1, loss.size + 1)
        self._harmonic = np.concatenate([[0.0], np.cumsum(1.0 / numbers)])

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the area of each resample.

        Tied rows share their mean loss m. With K rows of loss S before them:

            sum{ (S + j * m) / (K + j) : j = 1..C }
                = C * m + (S - K * m) * (H(K + C) - H(K))

        with the harmonic numbers H.
        """
        number = self._ties.sums(counts)
        loss = self._ties.sums(counts * self._loss)
        mean = loss / np.maximum(number, 1.0)
        before = _before(number)
        begin, end = before.astype(np.intp), (before + number).astype(np.intp)
        spread = self._harmonic[end] - self._harmonic[begin]
        risks = loss + (_before(loss) - before * mean) * spread
        return np.asarray(risks.sum(axis=1) / self.size)


class ExcessAurc:
    """Area under the risk-coverage curve above the least possible area."""

    def __init__(self, loss: Float64Array, uncertainty: Float64Array) -> None:
        self.size = loss.size
        self._actual = Aurc(loss, uncertainty)
        self._least = Aurc(loss, loss)

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the difference in each resample."""
        return np.maximum(self._actual(counts) - self._least(counts), 0.0)


class RankCorrelation:
    """Spearman's correlation of two values of each row.

    It is the correlation of their ranks; tied values share the mean of theirs.
    """

    def __init__(self, first: Float64Array, second: Float64Array) -> None:
        self.size = first.size
        self._ties = (_Ties(first), _Ties(second))

    def __call__(self, counts: Counts) -> Float64Array:
        """Returns the correlation in each resample; NaN if all are tied."""
        centred = []
        for ties in self._ties:
            number = ties.sums(counts)
            ranks = (_before(number) + (number + 1) / 2)[:, ties.group]
            centred.append(ranks - (self.size + 1) / 2)
        first, second = centred
        product = np.sum(counts * first * second, axis=1)
        squares = [np.sum(counts * each**2, axis=1) for each in centred]
        scale = np.sqrt(squares[0] * squares[1])
        return np.asarray(product / np.where(scale > 0, scale, np.nan))


class _Ties:
    """Groups of equal values, in increasing order.

    Attributes:
        group: Number of the group of each value.
    """

    def __init__(self, values: Float64Array) -> None:
        _, group = np.unique(values, return_inverse=True)
        self.group = group.reshape(-1)
        self._order = np.argsort(self.group, kind="stable")
        ordered = self.group[self._order]
        self._starts = np.flatnonzero(np.diff(ordered, prepend=-1))

    def sums(self, weights: Float64Array) -> Float64Array:
        """Sums weights `[resamples, values]` to `[resamples, groups]`."""
        ordered = weights[:, self._order]
        return np.asarray(np.add.reduceat(ordered, self._starts, axis=1))


def _before(sums: Float64Array) -> Float64Array:
    """Returns the sum of all groups before each."""
    return np.asarray(np.cumsum(sums, axis=1) - sums)


def _chance_gaps(
    bins: Numbers, confidence: Float64Array, generator: np.random.Generator
) -> float:
    """Returns the sum of gaps if labels are right as often as said."""
    right = generator.random(confidence.size) < confidence
    sums = np.bincount(bins, right - confidence)
    return float(np.sum(np.abs(sums)) / confidence.size)


def _sum_bins(
    bins: Numbers, weights: Float64Array, num_bins: int
) -> Float64Array:
    """Sums weights `[resamples, labels]` to `[resamples, bins]`."""
    index = bins + num_bins * np.arange(len(weights))[:, None]
    sums = np.bincount(
        index.reshape(-1),
        weights.reshape(-1),
        minlength=len(weights) * num_bins,
    )
    return np.asarray(sums.reshape(len(weights), num_bins))
