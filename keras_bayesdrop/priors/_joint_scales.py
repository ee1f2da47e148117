# SPDX-License-Identifier: Apache-2.0
"""The joint optimum of row scales and a matrix scale, which multiply.

With `I` rows of `J` weights, moments `m[r]`, variances `L[r]` of the rows and
`T` of the matrix, the objective is

    F = sum{ -J * log(sqrt(L[r] * T)) - m[r] / (2 * L[r] * T) : r }
        + sum{ log p(L[r]) : r } + log p(T)

It is concave in the logs of the scales. For a fixed `T` each `L[r]` has a
closed form, with moments `m[r] / T`. At these `L[r]` the slope of `F` in the
log of the matrix scale is a difference of scores, because the slopes of the
Gaussian and of the prior of a row cancel:

    g(T) = score(T) - sum{ score(L[r]) : r }

It decreases in `T`, and its zero is bracketed in `log(T)` and narrowed down.
Coordinate ascent converges to the same optimum, but takes thousands of sweeps
for the half-Cauchy.
"""

from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors.base import ScalePrior

# Bounds of log(T), wider than the logs of all float32 numbers: moments are in
# float32. Each round cuts the interval into eight parts. After all rounds its
# width is 200 / 8^12 = 3e-9; the precision of float32 is 6e-8. Bisecting 36
# times takes as long when compiled, and longer when not.
_LOW, _HIGH = -100.0, 100.0
_PARTS = 8
_ROUNDS = 12


def joint_variances(
    row_moments: Any,
    columns: int,
    row_prior: ScalePrior,
    matrix_prior: ScalePrior,
) -> tuple[Any, Any]:
    """Returns the variances of the rows and of the matrix.

    They are computed in float64: `g` may be a small difference of large
    scores.

    Args:
        row_moments: Tensor of shape `[rows]`.
        columns: Number of weights in a row.
        row_prior: Prior of each row scale.
        matrix_prior: Prior of the matrix scale. `check_joint_optimum` has
            checked both.

    Returns:
        Tensors of shapes `[rows]` and `[]`, in float64. If rows are exactly 0,
        the optimal matrix variance may be 0; it is then `exp(-100)`.
    """
    moments = keras.ops.cast(row_moments, "float64")
    cuts = keras.ops.arange(1, _PARTS, dtype="float64")  # [cuts]

    def best_rows(variance: Any) -> Any:
        return row_prior.optimal_variance(moments / variance, columns)

    def narrow(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        low, width = state
        width = width / _PARTS
        variance = keras.ops.exp(low + width * cuts)
        rows = best_rows(keras.ops.expand_dims(variance, -1))  # [cuts, rows]
        slope = matrix_prior.score(variance)
        slope = slope - keras.ops.sum(row_prior.score(rows), axis=-1)
        rising = keras.ops.cast(slope > 0.0, "float64")
        return low + width * keras.ops.sum(rising), width

    interval = (
        keras.ops.convert_to_tensor(_LOW, "float64"),
        keras.ops.convert_to_tensor(_HIGH - _LOW, "float64"),
    )
    low, width = keras.ops.fori_loop(0, _ROUNDS, narrow, interval)
    variance = keras.ops.exp(low + 0.5 * width)
    return best_rows(variance), variance


def check_joint_optimum(
    row_prior: ScalePrior,
    matrix_prior: ScalePrior,
    rows: int | None = None,
    columns: int | None = None,
) -> None:
    """Raises if the scales have no joint optimum.

    The slope `g` must be positive at `T = 0`, where the row scales go to
    infinity, and negative at infinity, where the row scales are smallest. An
    inverse gamma prior keeps the row scales above 0, so that its score does
    not reach the infinite limit; it is still large enough.

    Args:
        row_prior: Prior of each row scale.
        matrix_prior: Prior of the matrix scale.
        rows: Number of rows, or `None` to raise only if no matrix of two or
            more rows has an optimum.
        columns: Number of columns, for the message.
    """
    row_zero, row_infinity = row_prior.score_limits
    zero, infinity = matrix_prior.score_limits
    if rows is None:
        # At T = 0 more rows raise the slope, unless their score is 0 there.
        # At infinity more rows do not help if two rows fail.
        shrinks = zero <= 0.0 and row_infinity == 0.0
        grows = infinity - 2.0 * row_zero >= 0.0
        received = ""
    else:
        shrinks = zero - rows * row_infinity <= 0.0
        grows = infinity - rows * row_zero >= 0.0
        received = f", a kernel of {rows} rows and {columns} columns"
    if not shrinks and not grows:
        return
    way = "smaller" if shrinks else "larger"
    raise BayesdropError(
        "The scales of the rows and of the matrix have no joint optimum: the "
        f"density grows without bound as the matrix scale gets {way} and the "
        "row scales compensate. Expected priors that prevent this, such as "
        "`InverseGammaScale` for the rows, or `HalfCauchyScale` for both. "
        f"Received: row_prior={row_prior!r}, matrix_prior={matrix_prior!r}"
        f"{received}"
    )
