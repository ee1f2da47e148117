# SPDX-License-Identifier: Apache-2.0
"""What is gained by not answering where the model is unsure."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.metrics._uncertainty import pair_by_row


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Risk of the surest rows, by how many of them are answered.

    Entry `k` of each array is about the `k + 1` surest rows.

    Attributes:
        coverage: Array `[rows]`. Fraction of rows answered, `(k + 1) / n`.
        risk: Array `[rows]`. Mean loss of the rows answered.
        threshold: Array `[rows]`. Uncertainty of the last row answered: all
            rows answered are at or below it.
    """

    coverage: Float64Array
    risk: Float64Array
    threshold: Float64Array


def risk_coverage(
    uncertainty: npt.ArrayLike, loss: npt.ArrayLike
) -> RiskCoverage:
    """Mean loss of the rows answered, against the fraction answered.

    With the rows sorted from the surest to the least sure:

        coverage[k] = (k + 1) / n
        risk[k]     = sum{ loss[i] : i <= k } / (k + 1)

    Rows of the same uncertainty have no order. Each of them counts with the
    mean loss of all of them, which is what a random order gives on average.
    So the curve does not depend on the order in which the rows come.

    Args:
        uncertainty: Array `[rows]`, larger where the model is less sure:
            `Predictive.predictive_entropy`, or `std` of a regression.
        loss: Array `[rows]`: whether the row is predicted wrong, or its
            squared error, or any other cost.

    Returns:
        A `RiskCoverage`.

    Example:
        >>> risk_coverage([0.1, 0.9, 0.5], [0, 1, 0]).risk
        array([0.        , 0.        , 0.33333333])

    References:
        - [El-Yaniv and Wiener, 2010](https://jmlr.org/papers/v11/el-yaniv10a.html).
        - [Geifman and El-Yaniv, 2017](https://arxiv.org/abs/1705.08500).
    """
    values, cost = pair_by_row(uncertainty, "loss", loss)
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
