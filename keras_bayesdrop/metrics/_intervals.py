# SPDX-License-Identifier: Apache-2.0
"""Intervals, quantiles and sharpness of a regression."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import finite_numbers
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.metrics._regression import Intervals
from keras_bayesdrop.metrics._regression import bounds
from keras_bayesdrop.metrics._regression import check_level
from keras_bayesdrop.metrics._regression import check_regression
from keras_bayesdrop.metrics._regression import ends
from keras_bayesdrop.metrics._regression import predictive_quantile
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets


@truth_first
def interval_coverage(
    y: npt.ArrayLike, prediction: Intervals, level: float = 0.9
) -> float:
    """Fraction of targets inside their prediction intervals (PICP).

        coverage = mean{ lower[i] <= y[i] <= upper[i] : i }

    Calibrated intervals have a coverage near `level`. Read it together with
    `interval_width`: intervals that are wide enough cover any target.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or a pair of arrays
            `(lower, upper)`, each `[rows, outputs]`.
        level: Float in `(0, 1)`. Level of the intervals of a `Predictive`
            (see `Predictive.interval`); not used for a pair of arrays.
            Defaults to `0.9`.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> interval_coverage([0.5, 2.0], ([0.0, 0.0], [1.0, 1.0]))
        0.5

    References:
        - [Khosravi et al., 2011](https://doi.org/10.1109/TNN.2010.2096824).
    """
    lower, upper, target = bounds(prediction, y, level)
    return float(np.mean((lower <= target) & (target <= upper)))


def interval_width(prediction: Intervals, level: float = 0.9) -> float:
    """Mean width of the prediction intervals (MPIW).

        width = mean{ upper[i] - lower[i] : i }

    Of two predictions with the same coverage, the one with the narrower
    intervals says more. The targets are not used.

    Args:
        prediction: `Predictive` of a regression, or a pair of arrays
            `(lower, upper)`, each `[rows, outputs]`.
        level: Float in `(0, 1)`. Level of the intervals of a `Predictive`
            (see `Predictive.interval`); not used for a pair of arrays.
            Defaults to `0.9`.

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


@truth_first
def interval_score(
    y: npt.ArrayLike, prediction: Intervals, level: float = 0.9
) -> float:
    """Width of the intervals, plus a penalty for every target outside.

    With `alpha = 1 - level`:

        score = mean{ upper[i] - lower[i]
                      + 2 / alpha * max(lower[i] - y[i], 0)
                      + 2 / alpha * max(y[i] - upper[i], 0) : i }

    It is a proper score: on average, the central interval of the true
    distribution scores best. It is also known as the Winkler score.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or a pair of arrays
            `(lower, upper)`, each `[rows, outputs]`.
        level: Float in `(0, 1)`. Nominal coverage of the intervals. Defaults
            to `0.9`.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> interval_score([0.5, 2.0], ([0.0, 0.0], [1.0, 1.0]), level=0.5)
        3.0

    References:
        - [Gneiting and Raftery, 2007](https://doi.org/10.1198/016214506000001437),
          section 6.2.
    """
    check_level(level)
    lower, upper, target = bounds(prediction, y, level)
    return float(np.mean(interval_scores(lower, upper, target, level)))


def interval_scores(
    lower: Float64Array, upper: Float64Array, target: Float64Array, level: float
) -> Float64Array:
    """Returns the `interval_score` of each target, all of one shape."""
    penalty = 2 / (1 - level)
    outside = np.maximum(lower - target, 0.0) + np.maximum(target - upper, 0.0)
    return np.asarray(upper - lower + penalty * outside)


@truth_first
def pinball_loss(
    y: npt.ArrayLike,
    prediction: Prediction,
    q: float | Sequence[float] = 0.5,
) -> float:
    """Loss that the quantile of level `q` minimises.

    With `d[i] = y[i] - quantile[i]`:

        loss = mean{ max(q * d[i], (q - 1) * d[i]) : i }

    For several levels it is the mean of their losses. Quantiles of a
    `Predictive` are those of an observation: they include the noise where it
    is known or learned, as in `Predictive.interval`.

    Args:
        y: Targets `[rows, outputs]`.
        prediction: `Predictive` of a regression, or the quantiles
            `[rows, outputs]`; for several levels `[levels, rows, outputs]`.
        q: Float in `(0, 1)`, or a sequence of them. Defaults to `0.5`, which
            gives half the mean absolute error of the median.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> pinball_loss([2.0, 0.0], [1.0, 1.0], q=0.75)
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
    target = regression_targets(quantiles[0], y)
    losses = []
    for level, quantile in zip(levels, quantiles, strict=True):
        above = target - quantile
        losses.append(np.mean(np.maximum(level * above, (level - 1) * above)))
    return float(np.mean(losses))


def sharpness(prediction: Prediction) -> float:
    """Root of the mean predictive variance, over all rows and outputs.

        sharpness = sqrt(mean{ total[i] : i })

    with `Predictive.total`, which includes observation noise if it is known.
    The targets are not used. Among calibrated predictions the sharpest is the
    best; a small value alone says nothing. If the variance is right on
    average, the sharpness equals `root_mean_squared_error`.

    Args:
        prediction: `Predictive` of a regression, or its standard deviations
            `[rows, outputs]`.

    Returns:
        Float, in the unit of the targets.

    Example:
        >>> sharpness([3.0, 4.0])
        3.5355339059327378

    References:
        - [Gneiting et al., 2007](https://doi.org/10.1111/j.1467-9868.2007.00587.x).
        - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263).
    """
    if isinstance(prediction, Predictive):
        check_regression(prediction)
        return float(np.sqrt(np.mean(prediction.total, dtype=np.float64)))
    std = finite_numbers("prediction", prediction)
    check_some(std)
    if np.any(std < 0):
        raise BayesdropError(
            "Invalid value for argument `prediction`. Expected standard "
            "deviations, which are not negative. Received: values from "
            f"{std.min()} to {std.max()}"
        )
    return float(np.sqrt(np.mean(np.square(std))))
