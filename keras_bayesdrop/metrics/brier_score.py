# SPDX-License-Identifier: Apache-2.0
"""Squared distance of the probabilities from the label."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import probabilities
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels


def brier_score(prediction: Prediction, labels: npt.ArrayLike) -> float:
    """Mean squared distance of the probabilities from the one-hot label.

        Brier = mean{ sum{ (p[i, c] - [labels[i] == c])**2 : c } : i }

    in `[0, 2]`. For one probability per label it is

        Brier = mean{ (p[i] - labels[i])**2 : i }

    in `[0, 1]`: half of what the same prediction written as two classes gets.
    It is a proper score: being honest is best on average. Unlike the negative
    log-likelihood it stays finite for a label of probability zero.

    Args:
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.
        labels: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros
            and ones for binary.

    Returns:
        Float; 0 is perfect.

    Example:
        >>> brier_score([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        0.3125

    References:
        - [Brier, 1950](https://doi.org/10.1175/1520-0493(1950)078%3C0001:VOFEIT%3E2.0.CO;2).
    """
    values, task = probabilities(prediction)
    check_some(values)
    p = values.astype(np.float64)
    if task == "binary":
        return float(np.mean(np.square(p - binary_labels(p, labels))))
    one_hot = np.eye(p.shape[-1])[class_labels(p, labels)]
    return float(np.mean(np.sum(np.square(p - one_hot), axis=-1)))
