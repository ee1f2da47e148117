# SPDX-License-Identifier: Apache-2.0
"""How wide prediction intervals are."""

import numpy as np

from keras_bayesdrop.metrics._regression import Intervals
from keras_bayesdrop.metrics._regression import ends


def interval_width(prediction: Intervals, level: float = 0.9) -> float:
    """Mean width of the prediction intervals (MPIW).

        width = mean{ upper[i] - lower[i] : i }

    Of two predictions of the same coverage, the one with the narrower
    intervals says more. The targets do not enter.

    Args:
        prediction: `Predictive` of a regression, or a pair of arrays
            `(lower, upper)`, each `[rows, outputs]`.
        level: Float in `(0, 1)`. Which intervals of a `Predictive` (see
            `Predictive.interval`). Arrays are taken as they are. Defaults to
            `0.9`.

    Returns:
        Float, in the unit of the targets.

    Example:
        >>> interval_width(([0.0, 0.0], [1.0, 3.0]))
        2.0

    References:
        - [Khosravi et al., 2011](https://doi.org/10.1109/TNN.2010.2096824).
    """
    lower, upper = ends(prediction, level)
    return float(np.mean(upper - lower))
