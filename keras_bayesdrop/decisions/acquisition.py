# SPDX-License-Identifier: Apache-2.0
"""Which rows of a pool to have labelled."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Acquisition:
    """The rows of a pool that were chosen; made by `acquire`.

    Attributes:
        rows: Int array `[k]`, in the order in which they were chosen.
        scores: Array `[k]`. What each was chosen for: for `"batchbald"` the
            information that it adds to those before it, in nats (their sum is
            that of the whole batch); otherwise its own score.
        method: How they were chosen.
    """

    rows: npt.NDArray[np.intp]
    scores: Float64Array
    method: str
