# SPDX-License-Identifier: Apache-2.0
"""Uncertainty as a ranking of rows: risk and coverage, AUROC, AUPR."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import pair_by_row
from keras_bayesdrop.metrics._inputs import truth_first


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Risk of the most certain rows, by the fraction that is answered.

    Entry `k` of each array describes the `k + 1` most certain rows.

    Attributes:
        coverage: Array `[rows]`. Fraction of rows answered, `(k + 1) / n`.
        risk: Array `[rows]`. Mean loss of the rows answered.
        threshold: Array `[rows]`. Uncertainty of the last row answered: all
            rows answered are at or below it.
    """

    coverage: Float64Array
    risk: Float64Array
    threshold: Float64Array


@truth_first
def risk_coverage(
    loss: npt.ArrayLike, uncertainty: npt.ArrayLike
) -> RiskCoverage:
    """Mean loss of the rows answered, against the fraction answered.

    With the rows sorted from the most to the least certain:

        coverage[k] = (k + 1) / n
        risk[k]     = sum{ loss[i] : i <= k } / (k + 1)

    Rows of equal uncertainty have no order. Each of them counts with their
    mean loss, which is the average over all orders. So the curve does not
    depend on the order of the rows.

    Args:
        loss: Array `[rows]`: 1 for a row that is predicted wrong and 0 for
            the others, or the squared error, or any other cost.
        uncertainty: Array `[rows]`, larger where the model is less certain:
            `Predictive.predictive_entropy`, or `std` of a regression.

    Returns:
        A `RiskCoverage`.

    Example:
        >>> risk_coverage([0, 1, 0], [0.1, 0.9, 0.5]).risk
        array([0.        , 0.        , 0.33333333])

    References:
        - [El-Yaniv and Wiener, 2010](https://jmlr.org/papers/v11/el-yaniv10a.html).
        - [Geifman and El-Yaniv, 2017](https://arxiv.org/abs/1705.08500).
    """
    cost, values = pair_by_row("loss", loss, uncertainty)
    distinct, group, size = np.unique(
        values, return_inverse=True, return_counts=True
    )
    shared = np.bincount(group, cost) / size
    kept = np.arange(1, values.size + 1)
    return RiskCoverage(
        coverage=kept / values.size,
        risk=np.cumsum(np.repeat(shared, size)) / kept,
        threshold=np.repeat(distinct, size),
    )


@truth_first
def aurc(loss: npt.ArrayLike, uncertainty: npt.ArrayLike) -> float:
    """Area under the risk-coverage curve.

        AURC = mean{ risk[k] : k }

    over the points of `risk_coverage`. It is small if losses are small, and if
    large losses fall on uncertain rows; `excess_aurc` measures the second
    alone. An uncertainty without information gets the mean loss.

    Args:
        loss: Array `[rows]`: 1 for a row that is predicted wrong and 0 for
            the others, or any other cost.
        uncertainty: Array `[rows]`, larger where the model is less certain.

    Returns:
        Float, in the unit of the loss; less is better.

    Example:
        >>> aurc([0, 1, 0], [0.1, 0.9, 0.5])
        0.1111111111111111

    References:
        - [Geifman et al., 2019](https://arxiv.org/abs/1805.08206).
    """
    return float(np.mean(risk_coverage(loss, uncertainty).risk))


@truth_first
def excess_aurc(loss: npt.ArrayLike, uncertainty: npt.ArrayLike) -> float:
    """Area under the risk-coverage curve above the least possible area.

        E-AURC = aurc(loss, uncertainty) - aurc(loss, loss)

    The loss itself sorts the rows best. So the number measures the
    uncertainty, and not how large the losses of the model are.

    Args:
        loss: Array `[rows]`: 1 for a row that is predicted wrong and 0 for
            the others, or any other cost.
        uncertainty: Array `[rows]`, larger where the model is less certain.

    Returns:
        Float of at least 0, in the unit of the loss; 0 is perfect.

    Example:
        >>> excess_aurc([0, 1, 0], [0.1, 0.9, 0.5])
        0.0

    References:
        - [Geifman et al., 2019](https://arxiv.org/abs/1805.08206).
    """
    # Rounding alone can make the difference negative.
    return max(aurc(loss, uncertainty) - aurc(loss, loss), 0.0)


@truth_first
def uncertainty_auroc(
    wrong: npt.ArrayLike, uncertainty: npt.ArrayLike
) -> float:
    """Area under the ROC curve of uncertainty as a detector.

        AUROC = P(u[i] > u[j]) + P(u[i] == u[j]) / 2

    for a row `i` that is wrong and a row `j` that is not, both drawn at
    random. It is 0.5 for an uncertainty without information, and 1 if every
    wrong row is less certain than every right one. It depends neither on the
    number of wrong rows nor on the scale of the uncertainty.

    Args:
        wrong: Array `[rows]` of bools, or 0 and 1: the rows to detect, such
            as those predicted wrong or out of distribution. Both values must
            occur.
        uncertainty: Array `[rows]`, larger where the model is less certain.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> uncertainty_auroc([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
        0.75

    References:
        - [Hendrycks and Gimpel, 2017](https://arxiv.org/abs/1610.02136).
    """
    positive, values = _positive_rows(wrong, uncertainty)
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    # Ranks from 1; equal values share the mean of their ranks.
    ranks = (np.cumsum(size) - (size - 1) / 2)[group]
    hits = int(positive.sum())
    above = ranks[positive].sum() - hits * (hits + 1) / 2
    return float(above / (hits * (positive.size - hits)))


@truth_first
def uncertainty_aupr(wrong: npt.ArrayLike, uncertainty: npt.ArrayLike) -> float:
    """Area under the precision-recall curve of uncertainty as a detector.

    Each threshold calls wrong the rows at or above it. With the thresholds in
    decreasing order (average precision):

        AUPR = sum{ (recall[k] - recall[k - 1]) * precision[k] : k }

    An uncertainty without information gets the fraction of wrong rows. Prefer
    it to the AUROC if few rows are wrong and those rows matter. Rows of equal
    uncertainty share a threshold, so their order does not matter.

    Args:
        wrong: Array `[rows]` of bools, or 0 and 1: the rows to detect, such
            as those predicted wrong or out of distribution. Both values must
            occur.
        uncertainty: Array `[rows]`, larger where the model is less certain.

    Returns:
        Float in `[0, 1]`.

    Example:
        >>> uncertainty_aupr([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
        0.8333333333333333

    References:
        - [Davis and Goadrich, 2006](https://doi.org/10.1145/1143844.1143874).
    """
    positive, values = _positive_rows(wrong, uncertainty)
    _, group, size = np.unique(-values, return_inverse=True, return_counts=True)
    hits = np.bincount(group, positive)
    precision = np.cumsum(hits) / np.cumsum(size)
    return float(np.sum(hits * precision) / positive.sum())


def _positive_rows(
    wrong: npt.ArrayLike, uncertainty: npt.ArrayLike
) -> tuple[npt.NDArray[np.bool_], Float64Array]:
    """Returns which rows to detect, and the uncertainties, both `[rows]`."""
    flags, values = pair_by_row("wrong", wrong, uncertainty)
    positive = flags == 1
    if not np.all(positive | (flags == 0)):
        raise BayesdropError(
            "Invalid value for argument `wrong`. Expected only 0 and 1, or "
            f"bools. Received: values from {flags.min()} to {flags.max()}"
        )
    if np.all(positive) or not np.any(positive):
        raise BayesdropError(
            "There is nothing to detect. Expected both 0 and 1 in `wrong`. "
            f"Received: {positive.sum()} of {positive.size} rows are 1"
        )
    return positive, values
