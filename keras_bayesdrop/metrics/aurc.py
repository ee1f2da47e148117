# SPDX-License-Identifier: Apache-2.0
"""Risk over all coverages: one number for a risk-coverage curve."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.metrics.risk_coverage import risk_coverage


def aurc(uncertainty: npt.ArrayLike, loss: npt.ArrayLike) -> float:
    """Area under the risk-coverage curve.

        AURC = mean{ risk[k] : k }

    over the points of `risk_coverage`. It is small if the losses are small
    and if the large ones are where the model is unsure; `excess_aurc` is
    about the second alone. An uncertainty that tells nothing gets the mean
    loss.

    Args:
        uncertainty: Array `[rows]`, larger where the model is less sure.
        loss: Array `[rows]`: whether the row is predicted wrong, or any other
            cost.

    Returns:
        Float, in the unit of the loss; less is better.

    Example:
        >>> aurc([0.1, 0.9, 0.5], [0, 1, 0])
        0.1111111111111111

    References:
        - [Geifman et al., 2019](https://arxiv.org/abs/1805.08206).
    """
    return float(np.mean(risk_coverage(uncertainty, loss).risk))
