# SPDX-License-Identifier: Apache-2.0
"""Calibration of class probabilities: reliability curve and errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import probabilities
from keras_bayesdrop.metrics._inputs import top_label
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels

_BINNINGS = ("width", "mass")


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence and accuracy in each bin of confidence.

    Attributes:
        confidence: Array `[bins]`. Mean confidence; NaN in an empty bin.
        accuracy: Array `[bins]`. Fraction that is right; NaN in an empty bin.
        count: Int array `[bins]`. Number of labels in the bin.
        edges: Array `[bins + 1]`. Bin `b` is `(edges[b], edges[b + 1]]`; the
            first bin includes its lower edge as well.
    """

    confidence: Float64Array
    accuracy: Float64Array
    count: npt.NDArray[np.intp]
    edges: Float64Array

    @property
    def gap(self) -> Float64Array:
        """`accuracy - confidence`; negative where the model is too sure."""
        return self.accuracy - self.confidence

    @property
    def error(self) -> float:
        """Expected calibration error: mean absolute gap, weighted by count.

        error = sum{ count[b] / n * |gap[b]| : b }
        """
        filled = self.count > 0
        weighted = self.count[filled] * np.abs(self.gap[filled])
        return float(np.sum(weighted) / np.sum(self.count))


@truth_first
def reliability(
    y: npt.ArrayLike,
    prediction: Prediction,
    num_bins: int = 15,
    binning: str = "width",
) -> Reliability:
    """Accuracy against confidence, in bins of confidence.

    The confidence is the probability of the most likely label; for binary
    `max(p, 1 - p)`. With `B[b]` the labels whose confidence lies in bin `b`:

        confidence[b] = mean{ confidence of i : i in B[b] }
        accuracy[b]   = mean{ i is right : i in B[b] }

    In a calibrated model both are equal in every bin, up to chance.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        num_bins: Int, at least 1. Defaults to `15`.
        binning: `"width"` for bins of equal width in `[0, 1]`, or `"mass"`
            for bins with equally many labels. Equal confidences always share
            a bin, so the order of the rows does not matter. With many equal
            confidences some bins of equal mass are larger, and others empty.

    Returns:
        A `Reliability`.

    Example:
        >>> curve = reliability([0, 1], [[0.75, 0.25], [0.75, 0.25]], 4)
        >>> curve.accuracy[2], curve.confidence[2], curve.count[2]
        (np.float64(0.5), np.float64(0.75), np.int64(2))

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    """
    num_bins, binning = _check_binning(num_bins, binning)
    confidence, right = top_label(y, prediction)
    edges = bin_edges(confidence, num_bins, binning)
    bins = bin_numbers(confidence, edges)
    count = np.bincount(bins, minlength=num_bins)
    size = np.where(count > 0, count, np.nan)
    return Reliability(
        confidence=np.bincount(bins, confidence, minlength=num_bins) / size,
        accuracy=np.bincount(bins, right, minlength=num_bins) / size,
        count=count,
        edges=edges,
    )


@truth_first
def expected_calibration_error(
    y: npt.ArrayLike,
    prediction: Prediction,
    num_bins: int = 15,
    binning: str = "width",
) -> float:
    """Mean gap between confidence and accuracy, over bins of confidence.

    The confidence is the probability of the most likely label; for binary
    `max(p, 1 - p)`. With `B[b]` the labels whose confidence lies in bin `b`,
    `((b - 1) / num_bins, b / num_bins]`, and `n` labels in all:

        ECE = sum{ |B[b]| / n * |accuracy(B[b]) - confidence(B[b])| : b }

    By chance the error of a perfect model is above 0 too, and it grows with
    the number of bins: compare models on the same rows, with the same bins.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        num_bins: Int, at least 1. Defaults to `15`.
        binning: `"width"` for bins of equal width in `[0, 1]`, or `"mass"`
            for bins with equally many labels (see `reliability`).

    Returns:
        Float in `[0, 1]`; 0 is perfect.

    Example:
        >>> expected_calibration_error([0, 1], [[0.75, 0.25], [0.75, 0.25]])
        0.25

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    """
    return reliability(y, prediction, num_bins, binning).error


@truth_first
def classwise_calibration_error(
    y: npt.ArrayLike,
    prediction: Prediction,
    num_bins: int = 15,
    binning: str = "width",
) -> float:
    """Mean gap between probability and frequency, over classes and bins.

    With `B[b, c]` the labels whose probability of class `c` lies in bin `b`,
    `n` labels and `K` classes:

        error = sum{ |B[b, c]| / n
                     * |frequency(c in B[b, c]) - mean(p[c] in B[b, c])|
                     : b, c } / K

    Every class counts. A rare class that is always too likely shows here, and
    not in `expected_calibration_error`. The error is also known as static
    calibration error. For binary it is the error of class 1: that of class 0
    is the same, mirrored.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        num_bins: Int, at least 1. Defaults to `15`.
        binning: `"width"` for bins of equal width in `[0, 1]`, or `"mass"`
            for bins with equally many labels (see `reliability`).

    Returns:
        Float in `[0, 1]`; 0 is perfect.

    Example:
        >>> classwise_calibration_error([0, 1], [[0.75, 0.25], [0.75, 0.25]])
        0.25

    References:
        - [Nixon et al., 2019](https://arxiv.org/abs/1904.01685).
        - [Kull et al., 2019](https://arxiv.org/abs/1910.12656).
    """
    num_bins, binning = _check_binning(num_bins, binning)
    values, observation = probabilities(prediction)
    check_some(values)
    p = values.astype(np.float64)
    if observation == "label":
        p, is_class = p.reshape(-1, 1), binary_labels(p, y).reshape(-1, 1)
    else:
        classes = np.arange(p.shape[-1])
        is_class = class_labels(p, y).reshape(-1, 1) == classes
        p = p.reshape(-1, classes.size)
    total = 0.0
    for probability, happened in zip(p.T, is_class.T, strict=True):
        edges = bin_edges(probability, num_bins, binning)
        bins = bin_numbers(probability, edges)
        gaps = np.bincount(bins, happened - probability)
        total += float(np.sum(np.abs(gaps)))
    return total / p.size


@truth_first
def adaptive_calibration_error(
    y: npt.ArrayLike, prediction: Prediction, num_bins: int = 15
) -> float:
    """Class-wise calibration error in bins of equal mass.

    With `R` bins of equally many labels for each of the `K` classes:

        ACE = sum{ |frequency(c in bin r) - mean(p[c] in bin r)| : r, c }
              / (K * R)

    No bin is nearly empty, so chance affects the error less than in bins of
    equal width. Bins are weighted by their size where `R` does not divide the
    number of labels, or where equal probabilities share a bin.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        num_bins: Int, at least 1. Defaults to `15`.

    Returns:
        Float in `[0, 1]`; 0 is perfect.

    Example:
        >>> adaptive_calibration_error([0, 0], [0.25, 0.75], num_bins=2)
        0.5

    References:
        - [Nixon et al., 2019](https://arxiv.org/abs/1904.01685).
    """
    return classwise_calibration_error(y, prediction, num_bins, "mass")


def _check_binning(num_bins: Any, binning: Any) -> tuple[int, str]:
    """Returns the arguments `num_bins` and `binning`, checked."""
    return (
        check_positive_int(num_bins, "num_bins"),
        check_choice(binning, "binning", _BINNINGS),
    )


def bin_edges(
    values: Float64Array, num_bins: int, binning: str
) -> Float64Array:
    """Returns the `num_bins + 1` edges of bins; a bin includes its upper edge.

    Bin `b` of equal mass ends at the value of rank `ceil(b * n / num_bins)`.
    Equal values share a bin, so no result depends on the order of the rows.
    With ties bins are of unequal mass, and some may be empty.
    """
    if binning == "width":
        return np.linspace(0.0, 1.0, num_bins + 1)
    ordered = np.sort(values)
    # In integers: a float quotient could round up past a rank.
    ranks = -(-np.arange(num_bins + 1) * ordered.size // num_bins)
    return np.asarray(ordered[np.maximum(ranks, 1) - 1])


def bin_numbers(
    values: Float64Array, edges: Float64Array
) -> npt.NDArray[np.intp]:
    """Returns the number of the bin of each value."""
    return np.asarray(np.digitize(values, edges[1:-1], right=True))
