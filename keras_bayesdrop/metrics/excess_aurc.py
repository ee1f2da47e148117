# SPDX-License-Identifier: Apache-2.0
"""How far the order of the rows is from the best one."""

import numpy.typing as npt

from keras_bayesdrop.metrics.aurc import aurc


def excess_aurc(uncertainty: npt.ArrayLike, loss: npt.ArrayLike) -> float:
    """Area under the risk-coverage curve above the least possible.

        E-AURC = aurc(uncertainty, loss) - aurc(loss, loss)

    The loss itself would sort the rows best. So the number says how good the
    uncertainty is, whatever the model's loss.

    Args:
        uncertainty: Array `[rows]`, larger where the model is less sure.
        loss: Array `[rows]`: whether the row is predicted wrong, or any other
            cost.

    Returns:
        Float of at least 0, in the unit of the loss; 0 is perfect.

    Example:
        >>> excess_aurc([0.1, 0.9, 0.5], [0, 1, 0])
        0.0

    References:
        - [Geifman et al., 2019](https://arxiv.org/abs/1805.08206).
    """
    # Never negative but for rounding.
    return max(aurc(uncertainty, loss) - aurc(loss, loss), 0.0)
