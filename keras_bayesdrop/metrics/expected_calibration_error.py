# SPDX-License-Identifier: Apache-2.0
"""How far confidence is from accuracy."""

import numpy.typing as npt

from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics.reliability import reliability


def expected_calibration_error(
    prediction: Prediction,
    labels: npt.ArrayLike,
    num_bins: int = 15,
    binning: str = "width",
) -> float:
    """Mean gap between confidence and accuracy, over bins of confidence.

    The confidence is the probability of the likeliest label; for binary
    `max(p, 1 - p)`. With `B[b]` the labels whose confidence lies in bin `b`,
    `((b - 1) / num_bins, b / num_bins]`, and `n` labels in all:

        ECE = sum{ |B[b]| / n * |accuracy(B[b]) - confidence(B[b])| : b }

    Even a perfect model gets more than 0, by chance, and the more bins the
    more: compare models on the same rows, with the same bins.

    Args:
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        labels: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros
            and ones for binary.
        num_bins: Int, at least 1. Defaults to `15`.
        binning: `"width"` for bins of equal width in `[0, 1]`, or `"mass"`
            for bins with equally many labels (see `reliability`).

    Returns:
        Float in `[0, 1]`; 0 is perfect.

    Example:
        >>> expected_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
        0.25

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    """
    return reliability(prediction, labels, num_bins, binning).error
