# SPDX-License-Identifier: Apache-2.0
"""Half-Cauchy noise: the horseshoe prior on the weights."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.noise.induced import Horseshoe
from keras_bayesdrop.noise.induced import SquaredNoise
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register


@register
@dataclasses.dataclass(frozen=True)
class HalfCauchy(Multiplicative):
    """The absolute value of a Cauchy variable.

        p(xi) = 2 / (pi * scale * (1 + xi^2 / scale^2)),    xi > 0
        xi = scale * tan(pi * u / 2)

    A weight times it has the horseshoe distribution: a pole at zero, and tails
    like `1 / w^2`.

    It has no mean. A layer divides by the scale, which is the median: half of
    the units grow. Without noise the factor is 1. Averages over draws need not
    converge as the number of draws grows; medians and quantiles converge.

    Attributes:
        scale: Positive float. Median. Defaults to `1.0`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.HalfCauchy()
    noise.marginal_prior().log_prob([0.01, 1.0, 100.0])
    layer = keras_bayesdrop.layers.MCDropout(noise=noise)
    ```
    """

    scale: float = 1.0
    kind: ClassVar[str] = "half_cauchy"

    def __post_init__(self) -> None:
        """Checks the scale."""
        keep_checked(self, scale=check_positive(self.scale, "scale"))

    @property
    def mean(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def variance(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def normalizer(self) -> float:
        """The scale, because there is no mean."""
        return self.scale

    def quantile(self, u: Any) -> Any:
        """Returns `scale * tan(pi * u / 2)`, precise also for `u` near 1."""
        low = u < 0.5
        angle = (0.5 * math.pi) * keras.ops.where(low, u, 1.0 - u)
        tangent = keras.ops.tan(angle)
        return self.scale * keras.ops.where(low, tangent, 1.0 / tangent)

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`."""
        x = tf.convert_to_tensor(value) / self.scale
        constant = math.log(2 / (math.pi * self.scale))
        return tf.where(x >= 0, constant - tf.math.log1p(x**2), -math.inf)

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the distribution of `xi^2`."""
        return SquaredNoise(self, dtype)

    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> Any:
        """Returns the horseshoe distribution of a weight."""
        return Horseshoe(self, check_positive(sigma0, "sigma0"), dtype)

    def describe(self) -> str:
        """Returns the family."""
        return "half-Cauchy"
