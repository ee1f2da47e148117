# SPDX-License-Identifier: Apache-2.0
"""The inverse gamma prior of a scale."""

import math
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.priors._numerics import as_float
from keras_bayesdrop.priors.base import ScalePrior


@export("keras_bayesdrop.priors.InverseGammaScale")
class InverseGammaScale(ScalePrior):
    """An inverse gamma prior of the variance, or of the scale.

        p(z) = b^a / Gamma(a) * z^(-a - 1) * exp(-b / z),    z = tau^2 or tau

    On the variance it gives the weights a Student-t distribution with `2 * a`
    degrees of freedom. For `n` weights with moments `M` the best variance is

        tau^2 = (M + 2 * b) / (n + 2 * a + k)                  on="variance"
        tau = (b + sqrt(b^2 + 4 * N * M)) / (2 * N)            on="scale"
        N = n + a + k

    with `k` = 2, 1, 0 for a density over the variance, the scale and the log
    of the scale. It is never 0: this prior shrinks groups, but removes none.

    Args:
        a: Positive float. Shape. Defaults to `3.0`.
        b: Positive float. Scale, in units of `z`. Defaults to `3.0`.
        on: `"variance"` or `"scale"`, the variable with the inverse gamma
            distribution. Defaults to `"variance"`.
        variable: Variable of the density, see `ScalePrior`. Defaults
            to `"variance"`.

    Example:
    ```python
    prior = keras_bayesdrop.priors.InverseGammaScale(3.0, 3.0)
    prior.optimal_variance([0.0, 10.0], count=2)  # [0.6, 1.6]
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          supplement 3.1.1 for the default.
    """

    def __init__(
        self,
        a: float = 3.0,
        b: float = 3.0,
        on: str = "variance",
        variable: str = "variance",
    ) -> None:
        super().__init__(variable)
        self.a = check_positive(a, "a")
        self.b = check_positive(b, "b")
        self.on = check_choice(on, "on", ("variance", "scale"))

    @property
    def _decay(self) -> float:
        """The `d` of the density `tau^(-d)` for large `tau`."""
        return (2.0 if self.on == "variance" else 1.0) * self.a + self.power

    def log_prob(self, variance: Any) -> Any:
        """Returns the log-density; minus infinity at 0."""
        variance = as_float(variance)
        inside = variance > 0.0
        safe = keras.ops.where(inside, variance, 1.0)
        z = safe if self.on == "variance" else keras.ops.sqrt(safe)
        constant = self.a * math.log(self.b) - math.lgamma(self.a)
        # d(tau^2) = 2 * tau * d(tau)
        if self.on == "variance" and self.variable != "variance":
            constant += math.log(2.0)
        if self.on == "scale" and self.variable == "variance":
            constant -= math.log(2.0)
        log_tau = 0.5 * keras.ops.log(safe)
        value = constant - self._decay * log_tau - self.b / z
        return keras.ops.where(inside, value, -math.inf)

    def optimal_variance(self, moments: Any, count: int) -> Any:
        """Returns the best `tau^2` of each group, see `ScalePrior`."""
        moments = as_float(moments)
        total = check_positive_int(count, "count") + self._decay
        if self.on == "variance":
            return (moments + 2.0 * self.b) / total
        # In units of the larger term no square underflows or overflows.
        root = math.sqrt(total) * keras.ops.sqrt(moments)
        unit = keras.ops.stop_gradient(keras.ops.maximum(root, self.b))
        b = self.b / unit
        squares = keras.ops.square(b) + 4.0 * (total * (moments / unit) / unit)
        tau = unit * ((b + keras.ops.sqrt(squares)) / (2.0 * total))
        return keras.ops.square(tau)

    def score(self, variance: Any) -> Any:
        """Returns the derivative of `log_prob` by `log(tau)`."""
        variance = as_float(variance)
        if self.on == "variance":
            return 2.0 * self.b / variance - self._decay
        return self.b / keras.ops.sqrt(variance) - self._decay

    @property
    def score_limits(self) -> tuple[float, float]:
        """The limits of `score` as the variance goes to 0 and to infinity."""
        return math.inf, -self._decay

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            "a": self.a,
            "b": self.b,
            "on": self.on,
            "variable": self.variable,
        }
