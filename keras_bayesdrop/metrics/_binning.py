# SPDX-License-Identifier: Apache-2.0
"""Bins of probabilities, of equal width or of equal mass."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive_int

BINNINGS = ("width", "mass")


def check_binning(num_bins: Any, binning: Any) -> tuple[int, str]:
    """Returns how to bin, if it is possible."""
    return (
        check_positive_int(num_bins, "num_bins"),
        check_choice(binning, "binning", BINNINGS),
    )


def bin_edges(
    values: Float64Array, num_bins: int, binning: str
) -> Float64Array:
    """Edges of the bins: `num_bins + 1`, in order, the upper ones included.

    Of equal mass: bin `b` ends at the value of rank `ceil(b * n / num_bins)`.
    Equal values share a bin, so that no result depends on the order of the
    rows; bins are then of unequal mass, and some may be empty.
    """
    if binning == "width":
        return np.linspace(0.0, 1.0, num_bins + 1)
    ordered = np.sort(values)
    # In whole numbers: a float quotient could round up past a rank.
    ranks = -(-np.arange(num_bins + 1) * ordered.size // num_bins)
    return np.asarray(ordered[np.maximum(ranks, 1) - 1])


def bin_of(values: Float64Array, edges: Float64Array) -> npt.NDArray[np.intp]:
    """Number of the bin that each value is in."""
    return np.asarray(np.digitize(values, edges[1:-1], right=True))
