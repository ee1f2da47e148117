# SPDX-License-Identifier: Apache-2.0
"""How many targets lie in their intervals."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics._regression import Intervals
from keras_bayesdrop.metrics._regression import bounds


def interval_coverage(
    prediction: Intervals, targets: npt.ArrayLike, level: float = 0.9
) -> float:
    """Fraction of targets inside their prediction intervals (PICP).

        coverage = mean{ lower[i] <= targets[i] <= upper[i] : i }

    Intervals that hold what they promise have a coverage near `level`. Read
    it together with `interval_width`: wide enough intervals cover anything.

    Args:
        prediction: `Predictive` of a regression, or a pair of arrays
            `(lower, upper)`, each `[rows, outputs]`.
        targets: Array `[rows, outputs]`.
        level: Float in `(0, 1)`. Which intervals of a `Predictive` (see
            `Predictive.interval`). Arrays are taken as they are. Defaults to
            `0.9`.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> interval_coverage(([0.0, 0.0], [1.0, 1.0]), [0.5, 2.0])
        0.5

    References:
        - [Khosravi et al., 2011](https://doi.org/10.1109/TNN.2010.2096824).
    """
    lower, upper, y = bounds(prediction, targets, level)
    return float(np.mean((lower <= y) & (y <= upper)))
