# SPDX-License-Identifier: Apache-2.0
"""How surprising the labels are."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import probabilities
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.select import quantities_of


def negative_log_likelihood(
    prediction: Prediction, labels: npt.ArrayLike
) -> float:
    """Mean of minus the log of the predictive density, in nats per row.

        NLL = -mean{ log(p[i, labels[i]]) : i }

    A row with several labels counts their sum. A label of probability zero
    gives infinity: nothing is cut off.

    Args:
        prediction: `Predictive`, or probabilities `[rows, classes]` or
            `[rows]`. For a regression a `Predictive` with samples and
            `noise_precision` (see `Predictive.log_likelihood`).
        labels: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros
            and ones for binary; targets for a regression.

    Returns:
        Float in nats per row.

    Example:
        >>> negative_log_likelihood([[0.5, 0.5]], [0])
        0.6931471805599453
    """
    if isinstance(prediction, Predictive):
        logs = prediction.log_likelihood(labels)
    else:
        values, task = probabilities(prediction)
        logs = quantities_of(task).label_log_likelihood(values, labels)
    check_some(logs)
    return float(-np.mean(logs, dtype=np.float64))
