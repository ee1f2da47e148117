# SPDX-License-Identifier: Apache-2.0
"""Beta noise, with factors between dropped and kept."""

import dataclasses
import functools
import math
from typing import Any
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.noise._quantile_table import QuantileTable
from keras_bayesdrop.noise._quantile_table import logit
from keras_bayesdrop.noise._quantile_table import tabulate
from keras_bayesdrop.noise.induced import IntegratedNoise
from keras_bayesdrop.noise.induced import SquaredNoise
from keras_bayesdrop.noise.induced import logit_nodes
from keras_bayesdrop.noise.induced import unit_interval
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register


@register
@dataclasses.dataclass(frozen=True)
class Beta(IntegratedNoise):
    """A Beta variable, divided by its mean.

        p(xi) = xi^(a - 1) * (1 - xi)^(b - 1) / B(a, b),    0 < xi < 1

    with `a` and `b` the concentrations at 1 and at 0. As both go to 0, the
    noise becomes Bernoulli noise with the drop rate `b / (a + b)`.

    The error of draws is below `1e-7` in probability, for concentrations of
    0.01 and above.

    Attributes:
        concentration1: Positive float `a`. Defaults to `0.5`.
        concentration0: Positive float `b`. Defaults to `0.5`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.Beta(2.0, 1.0)
    noise.mean  # 0.6667
    layer = keras_bayesdrop.layers.MCDropout(noise=noise)
    ```

    References:
        - Liu et al., 2019, "Beta-Dropout: a Unified Dropout", IEEE Access.
    """

    concentration1: float = 0.5
    concentration0: float = 0.5
    kind: ClassVar[str] = "beta"

    def __post_init__(self) -> None:
        """Checks the parameters."""
        for name in ("concentration1", "concentration0"):
            keep_checked(
                self, **{name: check_positive(getattr(self, name), name)}
            )

    @property
    def mean(self) -> float:
        """`a / (a + b)`."""
        a, b = self.concentration1, self.concentration0
        return a / (a + b)

    @property
    def variance(self) -> float:
        """`a * b / ((a + b)^2 * (a + b + 1))`."""
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b) ** 2 * (a + b + 1))

    def quantile(self, u: Any) -> Any:
        """Returns the inverse of the regularised incomplete beta function."""
        table = _logit_table(self.concentration1, self.concentration0)
        return keras.ops.sigmoid(table(logit(u)))

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`."""
        x = tf.convert_to_tensor(value)
        a, b = self.concentration1, self.concentration0
        density = tf.math.xlogy(a - 1, x) + tf.math.xlog1py(b - 1, -x)
        inside = (x >= 0) & (x <= 1)
        return tf.where(inside, density - _log_beta(a, b), -math.inf)

    def scale_nodes(self) -> tuple[Float64Array, Float64Array]:
        """Returns logarithms of scales and of their weights, for integrals."""
        a, b = self.concentration1, self.concentration0
        width = math.sqrt(1 / a + 1 / b)  # of log(xi / (1 - xi)), about
        if width < 0.2:
            step = 0.2 * width
            y = math.log(a / b) + step * np.arange(-200.0, 201.0)
            log_x, log_rest, log_weight = logit_nodes(y, math.log(step))
        else:
            log_x, log_rest, log_weight = unit_interval()
        log_density = (a - 1) * log_x + (b - 1) * log_rest - _log_beta(a, b)
        return log_x, log_density + log_weight

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the distribution of `xi^2`."""
        return SquaredNoise(self, dtype)

    @property
    def has_pole(self) -> bool:
        """True if the density of a weight is infinite at zero."""
        return self.concentration1 <= 1

    def describe(self) -> str:
        """Returns the family and its parameters."""
        return f"Beta({self.concentration1:g}, {self.concentration0:g})"


@functools.lru_cache(maxsize=64)
def _logit_table(a: float, b: float) -> QuantileTable:
    """Returns the table of `log(x / (1 - x))` for `x ~ Beta(a, b)`."""

    def log_density(y: Float64Array) -> Float64Array:
        return np.asarray(-a * np.logaddexp(0, -y) - b * np.logaddexp(0, y))

    return tabulate(log_density, math.log(a) - math.log(b))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
