# SPDX-License-Identifier: Apache-2.0
"""The log-uniform prior of a scale."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.priors._numerics import as_float
from keras_bayesdrop.priors.base import ScalePrior


@export("keras_bayesdrop.priors.LogUniformScale")
class LogUniformScale(ScalePrior):
    """A prior that is uniform in the log of the scale.

        p(tau^2) = 1 / tau^2,    p(tau) = 1 / tau,    p(log(tau)) = 1

    It has no parameter. Its integral is infinite, so that densities are known
    up to a factor only. For `n` weights with moments `M` the best variance is

        tau^2 = M / (n + k)

    with `k` = 2, 1, 0 for a density over the variance, the scale and the log
    of the scale. The last gives the maximum likelihood estimate of the scale.
    The variance is 0 for `M = 0`.

    Args:
        variable: Variable of the density, see `ScalePrior`. Defaults
            to `"variance"`.

    Example:
    ```python
    prior = keras_bayesdrop.priors.LogUniformScale()
    prior.optimal_variance([0.0, 10.0], count=2)  # [0.0, 2.5]
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          supplement 3.1.3 for the default.
    """

    def __init__(self, variable: str = "variance") -> None:
        super().__init__(variable)

    def log_prob(self, variance: Any) -> Any:
        """Returns the log-density, up to a constant; infinity at 0."""
        variance = as_float(variance)
        if self.power == 0:
            return keras.ops.zeros_like(variance)
        return -0.5 * self.power * keras.ops.log(variance)

    def optimal_variance(self, moments: Any, count: int) -> Any:
        """Returns the best `tau^2` of each group, see `ScalePrior`."""
        total = check_positive_int(count, "count") + self.power
        return as_float(moments) / total

    def score(self, variance: Any) -> Any:
        """Returns the derivative of `log_prob` by `log(tau)`."""
        return keras.ops.full_like(as_float(variance), -float(self.power))

    @property
    def score_limits(self) -> tuple[float, float]:
        """The limits of `score` as the variance goes to 0 and to infinity."""
        return -float(self.power), -float(self.power)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"variable": self.variable}
