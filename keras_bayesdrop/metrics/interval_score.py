# SPDX-License-Identifier: Apache-2.0
"""Coverage and width of intervals in one proper score."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._regression import Intervals
from keras_bayesdrop.metrics._regression import bounds
from keras_bayesdrop.metrics._regression import check_level


def interval_score(
    prediction: Intervals, targets: npt.ArrayLike, level: float = 0.9
) -> float:
    """Width of the intervals, plus a fine for every target outside.

    With `alpha = 1 - level`:

        score = mean{ upper[i] - lower[i]
                      + 2 / alpha * max(lower[i] - targets[i], 0)
                      + 2 / alpha * max(targets[i] - upper[i], 0) : i }

    It is a proper score: the central interval of the true distribution is
    best on average. Also known as the Winkler score.

    Args:
        prediction: `Predictive` of a regression, or a pair of arrays
            `(lower, upper)`, each `[rows, outputs]`.
        targets: Array `[rows, outputs]`.
        level: Float in `(0, 1)`. What the intervals promise to cover.
            Defaults to `0.9`.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> interval_score(([0.0, 0.0], [1.0, 1.0]), [0.5, 2.0], level=0.5)
        3.0

    References:
        - [Gneiting and Raftery, 2007](https://doi.org/10.1198/016214506000001437),
          section 6.2.
    """
    fine = 2 / (1 - check_level(level))
    lower, upper, y = bounds(prediction, targets, level)
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return float(np.mean(upper - lower + fine * outside))
