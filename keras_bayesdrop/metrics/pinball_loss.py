# SPDX-License-Identifier: Apache-2.0
"""How good quantiles are."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import finite_numbers
from keras_bayesdrop.metrics._regression import check_level
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.metrics._regression import predictive_quantile
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets


def pinball_loss(
    prediction: Prediction,
    targets: npt.ArrayLike,
    q: float | Sequence[float] = 0.5,
) -> float:
    """Loss whose minimum is the quantile `q`.

    With `d[i] = targets[i] - quantile[i]`:

        loss = mean{ max(q * d[i], (q - 1) * d[i]) : i }

    and for several levels the mean of their losses. Quantiles of a
    `Predictive` are those of an observation: with `noise_precision` the noise
    is in them, as in `Predictive.interval`.

    Args:
        prediction: `Predictive` of a regression, or the quantiles
            `[rows, outputs]`; for several levels `[levels, rows, outputs]`.
        targets: Array `[rows, outputs]`.
        q: Float in `(0, 1)`, or a sequence of them. Defaults to `0.5`, which
            gives half the mean absolute error of the median.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> pinball_loss([1.0, 1.0], [2.0, 0.0], q=0.75)
        0.5

    References:
        - [Koenker and Bassett, 1978](https://doi.org/10.2307/1913643).
    """
    levels = [check_level(level, "q") for level in np.atleast_1d(q).tolist()]
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        quantiles = [predictive_quantile(prediction, q) for q in levels]
    else:
        values = finite_numbers("prediction", prediction)
        check_some(values)
        quantiles = [values] if np.ndim(q) == 0 else list(values)
    if not levels or len(quantiles) != len(levels):
        raise BayesdropError(
            "Invalid shape of argument `prediction`. Expected one array "
            "[rows, outputs] for each level, and at least one level. "
            f"Received: {len(quantiles)} arrays for {len(levels)} levels"
        )
    y = regression_targets(quantiles[0], targets)
    losses = [
        np.mean(np.maximum(level * (y - value), (level - 1) * (y - value)))
        for level, value in zip(levels, quantiles, strict=True)
    ]
    return float(np.mean(losses))
