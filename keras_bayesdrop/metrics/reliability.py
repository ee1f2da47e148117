# SPDX-License-Identifier: Apache-2.0
"""Accuracy by confidence: the curve behind the calibration error."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.metrics._binning import bin_edges
from keras_bayesdrop.metrics._binning import bin_of
from keras_bayesdrop.metrics._binning import check_binning
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import top_label


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence and accuracy in each bin of confidence.

    Attributes:
        confidence: Array `[bins]`. Mean confidence; NaN in an empty bin.
        accuracy: Array `[bins]`. Fraction that is right; NaN in an empty bin.
        count: Int array `[bins]`. How many labels are in the bin.
        edges: Array `[bins + 1]`. Bin `b` is `(edges[b], edges[b + 1]]`; the
            first takes its lower edge as well.
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
        """Expected calibration error: mean size of the gap, by count.

        error = sum{ count[b] / n * |gap[b]| : b }
        """
        filled = self.count > 0
        weighted = self.count[filled] * np.abs(self.gap[filled])
        return float(np.sum(weighted) / np.sum(self.count))


def reliability(
    prediction: Prediction,
    labels: npt.ArrayLike,
    num_bins: int = 15,
    binning: str = "width",
) -> Reliability:
    """Accuracy against confidence, in bins of confidence.

    The confidence is the probability of the likeliest label; for binary
    `max(p, 1 - p)`. With `B[b]` the labels whose confidence lies in bin `b`:

        confidence[b] = mean{ confidence of i : i in B[b] }
        accuracy[b]   = mean{ i is right : i in B[b] }

    A calibrated model has both equal, up to chance, in every bin.

    Args:
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        labels: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros
            and ones for binary.
        num_bins: Int, at least 1. Defaults to `15`.
        binning: `"width"` for bins of equal width in `[0, 1]`, or `"mass"`
            for bins with equally many labels. Equal confidences always share
            a bin, so that the order of the rows does not matter; with many of
            them some bins of equal mass are larger, and others empty.

    Returns:
        A `Reliability`.

    Example:
        >>> curve = reliability([[0.75, 0.25], [0.75, 0.25]], [0, 1], 4)
        >>> curve.accuracy[2], curve.confidence[2], curve.count[2]
        (np.float64(0.5), np.float64(0.75), np.int64(2))

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    """
    num_bins, binning = check_binning(num_bins, binning)
    confidence, right = top_label(prediction, labels)
    edges = bin_edges(confidence, num_bins, binning)
    bins = bin_of(confidence, edges)
    count = np.bincount(bins, minlength=num_bins)
    size = np.where(count > 0, count, np.nan)
    return Reliability(
        confidence=np.bincount(bins, confidence, minlength=num_bins) / size,
        accuracy=np.bincount(bins, right, minlength=num_bins) / size,
        count=count,
        edges=edges,
    )
