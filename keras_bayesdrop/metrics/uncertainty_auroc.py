# SPDX-License-Identifier: Apache-2.0
"""Whether uncertainty is larger where it should be."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._uncertainty import is_positive


def uncertainty_auroc(
    uncertainty: npt.ArrayLike, wrong: npt.ArrayLike
) -> float:
    """Area under the ROC curve of uncertainty as a detector.

        AUROC = P(u[i] > u[j]) + P(u[i] == u[j]) / 2

    for a row `i` that is wrong and a row `j` that is not, both drawn at
    random: 0.5 for an uncertainty that tells nothing, 1 if every wrong row is
    less sure than every right one. It does not depend on how many rows are
    wrong, nor on the scale of the uncertainty.

    Args:
        uncertainty: Array `[rows]`, larger where the model is less sure.
        wrong: Array `[rows]` of bools, or 0 and 1: the rows to be found, be
            it that they are predicted wrong or out of distribution. Both
            values must occur.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> uncertainty_auroc([0.1, 0.4, 0.3, 0.8], [0, 0, 1, 1])
        0.75

    References:
        - [Hendrycks and Gimpel, 2017](https://arxiv.org/abs/1610.02136).
    """
    values, positive = is_positive(uncertainty, wrong)
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    # Ranks from 1; equal values share the mean of theirs.
    ranks = (np.cumsum(size) - (size - 1) / 2)[group]
    hits = int(positive.sum())
    above = ranks[positive].sum() - hits * (hits + 1) / 2
    return float(above / (hits * (positive.size - hits)))
