# SPDX-License-Identifier: Apache-2.0
"""Scores of labels and targets: accuracy, Brier, log-likelihood, RMSE."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import finite_numbers
from keras_bayesdrop.metrics._inputs import probabilities
from keras_bayesdrop.metrics._inputs import top_label
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.observations import OBSERVATIONS
from keras_bayesdrop.predictive.select import quantities_of


@truth_first
def accuracy(y: npt.ArrayLike, prediction: Prediction) -> float:
    """Fraction of labels whose most likely value is the true one.

        accuracy = mean{ argmax{ p[i, c] : c } == y[i] : i }

    With one probability per label, 0.5 or more predicts the label 1.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> accuracy([0, 0], [[0.9, 0.1], [0.4, 0.6]])
        0.5
    """
    _, right = top_label(y, prediction)
    return float(np.mean(right))


@truth_first
def brier_score(y: npt.ArrayLike, prediction: Prediction) -> float:
    """Mean squared distance of the probabilities from the one-hot label.

        Brier = mean{ sum{ (p[i, c] - [y[i] == c])**2 : c } : i }

    in `[0, 2]`. With one probability per label it is

        Brier = mean{ (p[i] - y[i])**2 : i }

    in `[0, 1]`: half the score of the same prediction written as two classes.
    It is a proper score: on average, the true probabilities score best. Unlike
    the negative log-likelihood it is finite for a label of probability zero.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`.

    Returns:
        Float; 0 is perfect.

    Example:
        >>> brier_score([0, 1], [[0.75, 0.25], [0.5, 0.5]])
        0.3125

    References:
        - [Brier, 1950](https://doi.org/10.1175/1520-0493(1950)078%3C0001:VOFEIT%3E2.0.CO;2).
    """
    return float(np.mean(brier_values(y, prediction)))


def brier_values(y: npt.ArrayLike, prediction: Prediction) -> Float64Array:
    """Returns the `brier_score` of each label, `[rows, ...]`."""
    values, observation = probabilities(prediction)
    check_some(values)
    p = values.astype(np.float64)
    if observation == "label":
        return np.asarray(np.square(p - binary_labels(p, y)))
    one_hot = np.eye(p.shape[-1])[class_labels(p, y)]
    return np.asarray(np.sum(np.square(p - one_hot), axis=-1))


@truth_first
def negative_log_likelihood(y: npt.ArrayLike, prediction: Prediction) -> float:
    """Mean of minus the log of the predictive density, in nats per row.

        NLL = -mean{ log(p[i, y[i]]) : i }

    A row with several labels counts their sum. A label of probability zero
    gives infinity: probabilities are not clipped.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary; targets for a regression.
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`. For numbers a `Predictive` with samples, or by moments,
            whose noise is known or learned (see
            `Predictive.log_likelihood`).

    Returns:
        Float in nats per row.

    Example:
        >>> negative_log_likelihood([0], [[0.5, 0.5]])
        0.6931471805599453
    """
    if isinstance(prediction, Predictive):
        logs = prediction.log_likelihood(y)
    else:
        values, observation = probabilities(prediction)
        head = OBSERVATIONS[observation].plain_head
        logs = quantities_of(head).label_log_likelihood(values, y)
    check_some(logs)
    return float(-np.mean(logs, dtype=np.float64))


@truth_first
def root_mean_squared_error(y: npt.ArrayLike, prediction: Prediction) -> float:
    """Root of the mean squared error, over all rows and outputs.

        RMSE = sqrt(mean{ (mean[i] - y[i])**2 : i })

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or its mean
            `[rows, outputs]`.

    Returns:
        Float, in the unit of the targets.

    Example:
        >>> root_mean_squared_error([1.0, 1.0], [1.0, 5.0])
        2.8284271247461903
    """
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        mean: Array = prediction.mean
    else:
        mean = finite_numbers("prediction", prediction)
        check_some(mean)
    error = mean - regression_targets(mean, y)
    return float(np.sqrt(np.mean(np.square(error))))
