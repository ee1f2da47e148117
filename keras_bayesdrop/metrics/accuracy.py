# SPDX-License-Identifier: Apache-2.0
"""Fraction of labels that are predicted right."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import top_label


def accuracy(prediction: Prediction, labels: npt.ArrayLike) -> float:
    """Fraction of labels whose likeliest value is the true one.

        accuracy = mean{ argmax{ p[i, c] : c } == labels[i] : i }

    For one probability per label, 1 is predicted from 0.5 on.

    Args:
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        labels: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros
            and ones for binary.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> accuracy([[0.9, 0.1], [0.4, 0.6]], [0, 0])
        0.5
    """
    _, right = top_label(prediction, labels)
    return float(np.mean(right))
