# SPDX-License-Identifier: Apache-2.0
"""Chooses the rows to hand to a human, by a budget or a threshold."""

import math
from dataclasses import dataclass
from numbers import Integral
from numbers import Real

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.decisions._uncertainty import check_row_values
from keras_bayesdrop.decisions._uncertainty import row_losses
from keras_bayesdrop.decisions._uncertainty import row_uncertainty
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics import RiskCoverage
from keras_bayesdrop.metrics import risk_coverage
from keras_bayesdrop.predictive import Predictive

Budget = float | int


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Deferral:
    """Split of rows into kept and deferred; the result of `Predictive.defer`.

    Attributes:
        rows: Int array. The deferred rows, the least sure first.
        mask: Bool array `[rows]`, true for deferred rows.
        by: Name of the uncertainty, or `"given"` for an array.
        uncertainty: Array `[rows]`.
        threshold: Float. Rows with an uncertainty above it are deferred. With
            a budget it is the largest uncertainty of a kept row, or minus
            infinity if no row is kept. Of several rows with exactly this
            uncertainty, a budget may defer some and keep others.
        risk: Mean loss of the kept rows, NaN if there are none. `None` without
            labels.
        full_risk: Mean loss of all rows. `None` without labels.
        curve: `RiskCoverage` with the risk at all thresholds. `None` without
            labels.
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
        """The kept rows, in order."""
        return np.flatnonzero(~self.mask)

    @property
    def coverage(self) -> float:
        """Share of kept rows."""
        return 1.0 - len(self.rows) / len(self.mask)

    @property
    def residual_risk(self) -> float | None:
        """Mean loss over all rows if deferred rows have no loss.

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
    """Implements `Predictive.defer`, which documents the arguments."""
    check_limits(budget, threshold)
    if y is not None and loss is not None:
        raise BayesdropError(
            "Labels and losses exclude each other. Expected `y`, `loss`, or "
            "neither. Received: both"
        )
    if len(predictive) == 0:
        raise BayesdropError(
            "There are no rows to defer. Expected at least one row. "
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
        by: Name of the uncertainty.
        budget: Share or number of rows to defer, or `None`.
        threshold: Uncertainty above which rows are deferred, or `None`.
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


def check_limits(budget: Budget | None, threshold: float | None) -> None:
    """Raises unless exactly one of the two is valid and the other `None`."""
    if (budget is None) == (threshold is None):
        raise BayesdropError(
            "The limit for unsure rows is not defined. Expected either "
            "`budget` or `threshold`. "
            f"Received: budget={budget}, threshold={threshold}"
        )
    if budget is not None:
        valid = isinstance(budget, Real) and not isinstance(budget, bool)
        if valid and isinstance(budget, Integral):
            valid = budget >= 0
        elif valid:
            valid = 0 <= budget <= 1
        if not valid:
            raise invalid(
                "budget",
                budget,
                "a share of the rows (a float in [0, 1]) or a number of rows "
                "(an integer of at least 0)",
            )
    else:
        valid = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if not valid or math.isnan(threshold or 0.0):
            raise invalid("threshold", threshold, "a float that is not NaN")


def unsure_rows(
    uncertainty: Float64Array, budget: Budget | None, threshold: float | None
) -> tuple[npt.NDArray[np.intp], float]:
    """Returns the unsure rows, the least sure first, and the threshold.

    Of equally unsure rows the earlier one comes first.

    Args:
        uncertainty: Array `[rows]`.
        budget: Largest share (float) or number (int) of unsure rows.
        threshold: Rows with an uncertainty above it are unsure.

    Returns:
        Row numbers, and the threshold: the argument, or the largest
        uncertainty among the other rows (minus infinity if there are none).
    """
    order = np.argsort(-uncertainty, kind="stable")
    if threshold is not None:
        count = int(np.sum(uncertainty > threshold))
        return order[:count], float(threshold)
    assert budget is not None
    count = _count(budget, len(uncertainty))
    rest = uncertainty[order[count:]]
    return order[:count], float(rest[0]) if rest.size else -math.inf


def _count(budget: Budget, rows: int) -> int:
    if isinstance(budget, Integral):
        return min(int(budget), rows)
    # Rounds down, but 0.29 * 100 = 28.999... counts as 29.
    return math.floor(budget * rows + 1e-9)
