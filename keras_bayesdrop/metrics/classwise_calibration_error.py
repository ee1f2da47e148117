# SPDX-License-Identifier: Apache-2.0
"""Calibration of every class, not only of the likeliest."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._binning import bin_edges
from keras_bayesdrop.metrics._binning import bin_of
from keras_bayesdrop.metrics._binning import check_binning
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import probabilities
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels


def classwise_calibration_error(
    prediction: Prediction,
    labels: npt.ArrayLike,
    num_bins: int = 15,
    binning: str = "width",
) -> float:
    """Mean gap between probability and frequency, over classes and bins.

    With `B[b, c]` the labels that get a probability in bin `b` for class `c`,
    `n` labels and `K` classes:

        error = sum{ |B[b, c]| / n
                     * |frequency(c in B[b, c]) - mean(p[c] in B[b, c])|
                     : b, c } / K

    Every class counts, so a rare one that is always too likely is seen, as it
    is not by `expected_calibration_error`. Also known as the static
    calibration error. Binary: the class 1 only, since the other mirrors it.

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
        >>> classwise_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
        0.25

    References:
        - [Nixon et al., 2019](https://arxiv.org/abs/1904.01685).
        - [Kull et al., 2019](https://arxiv.org/abs/1910.12656).
    """
    num_bins, binning = check_binning(num_bins, binning)
    values, task = probabilities(prediction)
    check_some(values)
    p = values.astype(np.float64)
    if task == "binary":
        p, is_class = p.reshape(-1, 1), binary_labels(p, labels).reshape(-1, 1)
    else:
        classes = np.arange(p.shape[-1])
        is_class = class_labels(p, labels).reshape(-1, 1) == classes
        p = p.reshape(-1, classes.size)
    total = 0.0
    for probability, happened in zip(p.T, is_class.T, strict=True):
        edges = bin_edges(probability, num_bins, binning)
        bins = bin_of(probability, edges)
        gaps = np.bincount(bins, happened - probability)
        total += float(np.sum(np.abs(gaps)))
    return total / p.size
