# SPDX-License-Identifier: Apache-2.0
"""What a prediction turned out to cost, per row."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.decisions._uncertainty import mean_per_row
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.labels import regression_targets


def row_losses(predictive: Predictive, y: npt.ArrayLike) -> Float64Array:
    """Returns the loss of each row, against its labels.

    Classification and binary: the share of the row's labels that are wrong.
    Regression: the squared error, averaged over the row's outputs. These are
    what `expected_loss` is the expectation of.
    """
    mean = predictive.mean
    if predictive.task == "regression":
        return mean_per_row(np.square(mean - regression_targets(mean, y)))
    if predictive.task == "binary":
        return mean_per_row((mean >= 0.5) != binary_labels(mean, y))
    wrong = np.argmax(mean, axis=-1) != class_labels(mean, y)
    return mean_per_row(wrong)
