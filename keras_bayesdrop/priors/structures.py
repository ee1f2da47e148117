# SPDX-License-Identifier: Apache-2.0
"""Structures of weights that share a scale, and their best scales."""

from typing import Any
from typing import NamedTuple

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors._joint_scales import check_joint_optimum
from keras_bayesdrop.priors._joint_scales import joint_variances
from keras_bayesdrop.priors._lookup import get
from keras_bayesdrop.priors._numerics import as_float
from keras_bayesdrop.priors.base import ScalePrior

# Each structure: true if every row has a scale, true if the matrix has one.
STRUCTURES = {
    "ard": (True, False),
    "add": (False, True),
    "ard_add": (True, True),
}


class GroupScales(NamedTuple):
    """Scales of the weights of a matrix.

    Attributes:
        rows: Array of shape `[rows]`, a scale for each row, or `None`.
        matrix: Scalar array, the scale of the whole matrix, or `None`.
    """

    rows: Any
    matrix: Any

    @property
    def variance(self) -> Any:
        """The variance factor of a weight: `[rows, 1]`, or a scalar."""
        if self.rows is None:
            return keras.ops.square(self.matrix)
        scales = keras.ops.expand_dims(self.rows, -1)
        if self.matrix is not None:
            scales = scales * self.matrix
        return keras.ops.square(scales)

    def log_prob(
        self, row_prior: ScalePrior | None, matrix_prior: ScalePrior | None
    ) -> Any:
        """Returns the log-density of all scales, a scalar."""
        total = 0.0
        for scales, prior in (
            (self.rows, row_prior),
            (self.matrix, matrix_prior),
        ):
            if prior is not None:
                squares = keras.ops.square(scales)
                total = total + keras.ops.sum(prior.log_prob(squares))
        return total


def structured_scales(
    structure: str,
    moments: Any,
    row_prior: Any = None,
    matrix_prior: Any = None,
) -> GroupScales:
    """Returns the scales that explain the weights of a matrix best.

    The weights have the prior

        w[r, j] ~ N(0, sigma0^2 * xi[r]^2 * tau^2),    xi[r] ~ p,    tau ~ p

    - `"ard"`, automatic relevance determination: a scale `xi` for each row,
      that is for each input unit, and `tau = 1`;
    - `"add"`, automatic depth determination: a scale `tau` for the matrix,
      and `xi = 1`;
    - `"ard_add"`: both.

    The scales maximise the density of the weights times the density of the
    scales. The first two structures have a closed form. `"ard_add"` has one
    joint optimum, which is computed to the precision of float32.

    Moments are squares of weights. For weights with a posterior of mean `mu`
    and variance `s^2` they are `mu^2 + s^2`, and the scales then maximise the
    evidence lower bound.

    No gradient flows through the scales, and none is needed: the derivative of
    the objective by the scales is zero at the optimum.

    Args:
        structure: `"ard"`, `"add"` or `"ard_add"`.
        moments: Tensor of shape `[rows, columns]`, the moments over
            `sigma0^2`.
        row_prior: Prior of `xi`, as `priors.get` takes it; `None` for
            `"add"`.
        matrix_prior: Prior of `tau`; `None` for `"ard"`.

    Returns:
        The scales as tensors in float32 or better.

    Raises:
        BayesdropError: If the scales of `"ard_add"` have no joint optimum, as
            with two log-uniform priors.

    Example:
    ```python
    scales = keras_bayesdrop.priors.structured_scales(
        "ard", [[4.0, 4.0], [0.0, 0.0]], row_prior="half_cauchy"
    )
    scales.rows  # [1.5332, 0.0]
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """
    row_prior, matrix_prior = check_structure(
        structure, row_prior, matrix_prior
    )
    moments = keras.ops.stop_gradient(as_float(moments))
    if len(moments.shape) != 2 or None in moments.shape:
        raise BayesdropError(
            "Invalid value for argument `moments`. Expected a tensor of shape "
            f"[rows, columns]. Received: a tensor of shape {moments.shape}"
        )
    rows, columns = moments.shape
    row_variances = matrix_variance = None
    if row_prior is None:
        assert matrix_prior is not None  # by `check_structure`
        matrix_variance = matrix_prior.optimal_variance(
            keras.ops.sum(moments), rows * columns
        )
    else:
        row_moments = keras.ops.sum(moments, axis=-1)
        if matrix_prior is None:
            row_variances = row_prior.optimal_variance(row_moments, columns)
        else:
            check_joint_optimum(row_prior, matrix_prior, rows, columns)
            row_variances, matrix_variance = joint_variances(
                row_moments, columns, row_prior, matrix_prior
            )
    return GroupScales(
        _scale(row_variances, moments.dtype),
        _scale(matrix_variance, moments.dtype),
    )


def check_structure(
    structure: str, row_prior: Any, matrix_prior: Any
) -> tuple[ScalePrior | None, ScalePrior | None]:
    """Returns the priors of a structure, or raises if they do not fit it.

    Args:
        structure: Name of the structure.
        row_prior: Identifier of the prior of the row scales, or `None`.
        matrix_prior: Identifier of the prior of the matrix scale, or `None`.

    Returns:
        The prior of the rows and the prior of the matrix; `None` for a scale
        that the structure does not have.
    """
    check_choice(structure, "structure", STRUCTURES)
    priors: list[ScalePrior | None] = []
    for name, identifier, needed in zip(
        ("row_prior", "matrix_prior"),
        (row_prior, matrix_prior),
        STRUCTURES[structure],
        strict=True,
    ):
        if not needed and identifier is not None:
            raise invalid(
                name, identifier, f"`None` with structure={structure!r}"
            )
        priors.append(
            get(identifier, of="scales", name=name) if needed else None
        )
    rows, matrix = priors
    if rows is not None and matrix is not None:
        check_joint_optimum(rows, matrix)
    return rows, matrix


def _scale(variance: Any, dtype: Any) -> Any:
    """Returns the square root of a variance in a dtype, or `None`."""
    if variance is None:
        return None
    return keras.ops.cast(keras.ops.sqrt(variance), dtype)
