# SPDX-License-Identifier: Apache-2.0
"""How far confidence is from accuracy."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import top_label


def expected_calibration_error(
    prediction: Prediction, labels: npt.ArrayLike, bins: int = 15
) -> float:
    """Mean gap between confidence and accuracy, over bins of confidence.

    The confidence is the probability of the likeliest label; for binary
    `max(p, 1 - p)`. With `B[b]` the labels whose confidence lies in
    `((b - 1) / bins, b / bins]` and `n` labels in all:

        ECE = sum{ |B[b]| / n * |accuracy(B[b]) - confidence(B[b])| : b }

    Example:
        >>> expected_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
        0.25

    Args:
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        labels: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros
            and ones for binary.
        bins: Int, at least 1. Number of bins of equal width.

    Returns:
        Float in `[0, 1]`; 0 is perfect.

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    """
    if bins < 1:
        raise BayesdropError(
            "Invalid value for argument `bins`. Expected an int of at least "
            f"1. Received: bins={bins}"
        )
    confidence, right = top_label(prediction, labels)
    inner_edges = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    bin_of = np.digitize(confidence, inner_edges, right=True)
    gaps = np.bincount(bin_of, right - confidence, minlength=bins)
    return float(np.sum(np.abs(gaps)) / confidence.size)
