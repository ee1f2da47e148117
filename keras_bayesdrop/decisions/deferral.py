# SPDX-License-Identifier: Apache-2.0
"""Which rows to hand to a human, and what that does to the errors."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.decisions._budget import Budget
from keras_bayesdrop.decisions._budget import check_limits
from keras_bayesdrop.decisions._budget import unsure_rows
from keras_bayesdrop.decisions._losses import row_losses
from keras_bayesdrop.decisions._uncertainty import check_row_values
from keras_bayesdrop.decisions._uncertainty import row_uncertainty
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics import RiskCoverage
from keras_bayesdrop.metrics import risk_coverage
from keras_bayesdrop.predictive import Predictive


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Deferral:
    """Which rows are too unsure to be kept; made by `Predictive.defer`.

    Attributes:
        rows: Int array. The rows to hand over, the least sure first.
        mask: Bool array `[rows]`, true for those rows.
        by: Name of the uncertainty, or `"given"` for an array.
        uncertainty: Array `[rows]`.
        threshold: Float. Rows with an uncertainty above it are handed over.
            With a budget: the largest uncertainty that was kept, or minus
            infinity if nothing was. Of rows that have exactly this one, a
            budget may hand over some and keep others.
        risk: Mean loss of the rows that are kept; NaN if none is. `None`
            without labels.
        full_risk: Mean loss of all rows. `None` without labels.
        curve: `RiskCoverage`: the risk at every other threshold. `None`
            without labels.
    """

    rows: npt.NDArray[np.intp]
    mask: npt.NDArray[np.bool_]
    by: str
    uncertainty: Float64Array
    threshold: float
    risk: float | None = None
    full_risk: float | None = None
    curve: RiskCoverage | None = None

    @property
    def kept(self) -> npt.NDArray[np.intp]:
        """The rows that are kept, in order."""
        return np.flatnonzero(~self.mask)

    @property
    def coverage(self) -> float:
        """Share of the rows that are kept."""
        return 1.0 - len(self.rows) / len(self.mask)

    @property
    def residual_risk(self) -> float | None:
        """Mean loss over all rows if whoever gets the others is never wrong.

            residual_risk = risk * coverage

        `None` without labels.
        """
        if self.risk is None:
            return None
        return self.risk * self.coverage if self.coverage else 0.0

    def __repr__(self) -> str:
        """Short summary."""
        text = (
            f"Deferral(deferred={len(self.rows)} of {len(self.mask)}, "
            f"by={self.by!r}, threshold={self.threshold:.4g}"
        )
        if self.risk is not None:
            text += f", risk={self.risk:.4g}, full_risk={self.full_risk:.4g}"
        return text + ")"


def defer(
    predictive: Predictive,
    budget: Budget | None,
    threshold: float | None,
    by: str | npt.ArrayLike,
    y: npt.ArrayLike | None,
    loss: npt.ArrayLike | None,
) -> Deferral:
    """Does the work of `Predictive.defer`, which tells the arguments."""
    check_limits(budget, threshold)
    if y is not None and loss is not None:
        raise BayesdropError(
            "Labels and losses are two ways to say the same. Expected `y`, "
            "`loss`, or neither. Received: both"
        )
    if len(predictive) == 0:
        raise BayesdropError(
            "There is nothing to decide about. Expected at least one row. "
            "Received: a prediction of 0 rows"
        )
    losses = None
    if y is not None:
        losses = row_losses(predictive, y)
    elif loss is not None:
        losses = check_row_values(loss, "loss", len(predictive))
    uncertainty, name = row_uncertainty(predictive, by)
    return decide(uncertainty, name, budget, threshold, losses)


def decide(
    uncertainty: Float64Array,
    by: str,
    budget: Budget | None,
    threshold: float | None,
    losses: Float64Array | None = None,
) -> Deferral:
    """Splits rows by their uncertainty.

    Args:
        uncertainty: Array `[rows]`.
        by: What it is called.
        budget: Share or number of rows to hand over, or `None`.
        threshold: Uncertainty above which to do so, or `None`.
        losses: Array `[rows]`, or `None`.
    """
    rows, limit = unsure_rows(uncertainty, budget, threshold)
    mask = np.zeros(len(uncertainty), np.bool_)
    mask[rows] = True
    risk = full_risk = curve = None
    if losses is not None:
        kept = losses[~mask]
        risk = float(kept.mean()) if kept.size else math.nan
        full_risk = float(losses.mean())
        curve = risk_coverage(losses, uncertainty)
    return Deferral(
        rows=rows,
        mask=mask,
        by=by,
        uncertainty=uncertainty,
        threshold=limit,
        risk=risk,
        full_risk=full_risk,
        curve=curve,
    )
