# SPDX-License-Identifier: Apache-2.0
"""Calibration of a regression in one number."""

from collections.abc import Sequence

import numpy.typing as npt

from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics.calibration_curve import calibration_curve


def miscalibration_area(
    prediction: Prediction,
    targets: npt.ArrayLike,
    levels: Sequence[float] | None = None,
) -> float:
    """Area between the calibration curve and the diagonal.

        area = integral{ |observed(q) - q| : q from 0 to 1 }

    with the observed coverage of central intervals of level `q` (see
    `calibration_curve`). It is what `expected_calibration_error` is for
    classes. It does not see whether intervals are sharp.

    Args:
        prediction: `Predictive` of a regression, or samples
            `[T, rows, outputs]`.
        targets: Array `[rows, outputs]`.
        levels: Floats in `(0, 1)`, increasing. Defaults to 0.01, 0.02, ...,
            0.99.

    Returns:
        Float in `[0, 0.5]`; 0 is perfect.

    Example:
        >>> samples = np.linspace(-1.0, 1.0, 101)[:, None] * np.ones(4)
        >>> miscalibration_area(samples, [5.0, 5.0, 5.0, 5.0])
        0.495

    References:
        - [Chung et al., 2021](https://arxiv.org/abs/2109.10254).
    """
    return calibration_curve(prediction, targets, levels).area
