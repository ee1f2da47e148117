# SPDX-License-Identifier: Apache-2.0
"""Calibration of every class, in bins that follow the data."""

import numpy.typing as npt

from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics.classwise_calibration_error import (
    classwise_calibration_error,
)


def adaptive_calibration_error(
    prediction: Prediction, labels: npt.ArrayLike, num_bins: int = 15
) -> float:
    """Class-wise calibration error in bins of equal mass.

    With `R` bins of equally many labels for each of the `K` classes:

        ACE = sum{ |frequency(c in bin r) - mean(p[c] in bin r)| : r, c }
              / (K * R)

    No bin is nearly empty, so that chance plays a smaller part than in bins
    of equal width. Where `R` does not divide the number of labels, or equal
    probabilities share a bin, bins count by their size.

    Args:
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        labels: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros
            and ones for binary.
        num_bins: Int, at least 1. Defaults to `15`.

    Returns:
        Float in `[0, 1]`; 0 is perfect.

    Example:
        >>> adaptive_calibration_error([0.25, 0.75], [0, 0], num_bins=2)
        0.5

    References:
        - [Nixon et al., 2019](https://arxiv.org/abs/1904.01685).
    """
    return classwise_calibration_error(prediction, labels, num_bins, "mass")
