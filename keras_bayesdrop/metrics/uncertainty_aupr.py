# SPDX-License-Identifier: Apache-2.0
"""Whether the least sure rows are those that are wrong."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._uncertainty import is_positive


def uncertainty_aupr(uncertainty: npt.ArrayLike, wrong: npt.ArrayLike) -> float:
    """Area under the precision-recall curve of uncertainty as a detector.

    With thresholds from the largest uncertainty down, and the precision and
    recall of calling wrong what is at or above them (average precision):

        AUPR = sum{ (recall[k] - recall[k - 1]) * precision[k] : k }

    An uncertainty that tells nothing gets the fraction of wrong rows: better
    than the AUROC if few rows are wrong and it is these that matter. Rows of
    the same uncertainty share a threshold, so their order does not matter.

    Args:
        uncertainty: Array `[rows]`, larger where the model is less sure.
        wrong: Array `[rows]` of bools, or 0 and 1: the rows to be found, be
            it that they are predicted wrong or out of distribution. Both
            values must occur.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> uncertainty_aupr([0.1, 0.4, 0.3, 0.8], [0, 0, 1, 1])
        0.8333333333333333

    References:
        - [Davis and Goadrich, 2006](https://doi.org/10.1145/1143844.1143874).
    """
    values, positive = is_positive(uncertainty, wrong)
    _, group, size = np.unique(-values, return_inverse=True, return_counts=True)
    found = np.bincount(group, positive)
    precision = np.cumsum(found) / np.cumsum(size)
    return float(np.sum(found * precision) / positive.sum())
