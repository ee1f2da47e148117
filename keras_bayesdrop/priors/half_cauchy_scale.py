# SPDX-License-Identifier: Apache-2.0
"""The half-Cauchy prior of a scale."""

import math
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.priors._numerics import as_float
from keras_bayesdrop.priors.base import ScalePrior


@export("keras_bayesdrop.priors.HalfCauchyScale")
class HalfCauchyScale(ScalePrior):
    """A half-Cauchy prior of the scale: the horseshoe.

        p(tau) = 2 / (pi * eta * (1 + tau^2 / eta^2)),    tau > 0

    It has much mass near 0 and a heavy tail: it shrinks most groups to zero
    and hardly changes the others. For `n` weights with moments `M` the best
    variance is

        tau^2 = (h + sqrt(h^2 + 4 * (q + 2) * M * eta^2)) / (2 * (q + 2))
        h = M - q * eta^2,    q = n + k - 1

    with `k` = 2, 1, 0 for a density over the variance, the scale and the log
    of the scale. It is 0 for `M = 0`.

    Args:
        eta: Positive float. Median of the scale. Defaults to `1.0`.
        variable: Variable of the density, see `ScalePrior`. Defaults
            to `"scale"`.

    Example:
    ```python
    prior = keras_bayesdrop.priors.HalfCauchyScale(1.0)
    prior.optimal_variance([0.0, 10.0], count=2)  # [0.0, 2.8708]
    ```

    References:
        - [Carvalho et al., 2009](https://proceedings.mlr.press/v5/carvalho09a.html).
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          supplement 3.1.2 for the default.
    """

    def __init__(self, eta: float = 1.0, variable: str = "scale") -> None:
        super().__init__(variable)
        self.eta = check_positive(eta, "eta")

    def log_prob(self, variance: Any) -> Any:
        """Returns the log-density."""
        variance = as_float(variance)
        value = math.log(2.0 / math.pi) - math.log(self.eta)
        value -= keras.ops.log1p(variance / self.eta / self.eta)
        if self.variable == "variance":  # d(tau^2) = 2 * tau * d(tau)
            value -= math.log(2.0) + 0.5 * keras.ops.log(variance)
        elif self.variable == "log_scale":
            value += 0.5 * keras.ops.log(variance)
        return value

    def optimal_variance(self, moments: Any, count: int) -> Any:
        """Returns the best `tau^2` of each group, see `ScalePrior`."""
        moments = as_float(moments)
        q = check_positive_int(count, "count") + self.power - 1.0
        # In units of the larger term no square overflows. The floor is for an
        # `eta` whose square is 0 in the dtype.
        square = self.eta**2
        unit = keras.ops.maximum(moments, max((q + 1.0) * square, 1e-37))
        unit = keras.ops.stop_gradient(unit)
        m = moments / unit
        e = square / unit
        # h^2 + 4 * (q + 2) * M * eta^2, expanded so that no terms cancel.
        squares = m * m + (2.0 * q + 8.0) * e * m + (q * e) ** 2
        # Zero only for q = 0 and M = 0, where the slope would be infinite.
        some = squares > 0.0
        root = keras.ops.sqrt(keras.ops.where(some, squares, 1.0))
        root = keras.ops.where(some, root, 0.0)
        h = m - q * e
        above = h >= 0.0
        # For h < 0 the quadratic equation is solved for 1 / tau^2, where both
        # terms have the same sign too. `abs` would have no slope at h = 0.
        total = keras.ops.where(above, h, -h) + root
        return keras.ops.where(
            above,
            unit * (total / (2.0 * (q + 2.0))),
            2.0 * moments * (e / keras.ops.where(above, 1.0, total)),
        )

    def score(self, variance: Any) -> Any:
        """Returns the derivative of `log_prob` by `log(tau)`."""
        variance = as_float(variance)
        # 2 * v / (v + eta^2), in a form that is exact for small and large v.
        share = 2.0 / (1.0 + self.eta * (self.eta / variance))
        return (1.0 - self.power) - share

    @property
    def score_limits(self) -> tuple[float, float]:
        """The limits of `score` as the variance goes to 0 and to infinity."""
        return 1.0 - self.power, -1.0 - self.power

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"eta": self.eta, "variable": self.variable}
