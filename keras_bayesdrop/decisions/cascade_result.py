# SPDX-License-Identifier: Apache-2.0
"""What a cascade answers, and what it saved."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.decisions.deferral import Deferral


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CascadeResult:
    """The predictions of two models as one; made by `Cascade.predict`.

    Attributes:
        mean: Array `[rows, outputs]`, or a structure of them: the slow
            model's answer for the rows it was asked for, the fast model's for
            the rest.
        std: The standard deviations in the same form, if both models gave
            one; else `None`.
        fast: What the fast model returned, for all rows.
        slow: What the slow model returned, for the rows `asked`, in that
            order. `None` if it was not asked.
        deferral: Why these rows were asked for.
        fast_seconds: Wall time of the fast model. A first call includes what
            is compiled once.
        slow_seconds: Wall time of the slow model.
    """

    mean: Any
    std: Any
    fast: Any
    slow: Any
    deferral: Deferral
    fast_seconds: float
    slow_seconds: float

    @property
    def asked(self) -> npt.NDArray[np.intp]:
        """The rows that the slow model was asked for, the least sure first."""
        return self.deferral.rows

    @property
    def saving(self) -> float:
        """Share of the rows for which the slow model was not needed."""
        return self.deferral.coverage

    def __repr__(self) -> str:
        """Short summary."""
        return (
            f"CascadeResult(asked={len(self.asked)} of "
            f"{len(self.deferral.mask)}, saving={self.saving:.1%}, "
            f"fast_seconds={self.fast_seconds:.3g}, "
            f"slow_seconds={self.slow_seconds:.3g})"
        )
