# SPDX-License-Identifier: Apache-2.0
"""Uniform noise: continuous dropout."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.noise.base import OpEffect
from keras_bayesdrop.noise.induced import IntegratedNoise
from keras_bayesdrop.noise.induced import SquaredNoise
from keras_bayesdrop.noise.induced import unit_interval
from keras_bayesdrop.noise.multiplicative import check_finite
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register


@register
@dataclasses.dataclass(frozen=True)
class Uniform(IntegratedNoise):
    """A uniform variable, divided by its mean.

        xi ~ U(low, high)

    By default a unit is multiplied by a number between 0 and 2.

    Attributes:
        low: Float. Defaults to `0.0`.
        high: Float above `low`. Defaults to `1.0`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.Uniform(0.5, 1.5)
    noise.variance  # 0.0833
    layer = keras_bayesdrop.layers.MCDropout(noise=noise)
    ```

    References:
        - [Shen et al., 2018](https://arxiv.org/abs/1911.12675).
    """

    low: float = 0.0
    high: float = 1.0
    kind: ClassVar[str] = "uniform"
    has_op_effect: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks the ends."""
        low = check_finite(self.low, "low")
        high = check_finite(self.high, "high")
        if not low < high:
            raise invalid("high", high, f"a float above low={low:g}")
        keep_checked(self, low=low, high=high)

    @property
    def mean(self) -> float:
        """`(low + high) / 2`."""
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> float:
        """`(high - low)^2 / 12`."""
        return (self.high - self.low) ** 2 / 12

    def quantile(self, u: Any) -> Any:
        """Returns `low + (high - low) * u`."""
        return self.low + (self.high - self.low) * u

    def op_effect(self) -> OpEffect:
        """Returns a uniform factor."""
        low, high = (end / self.normalizer for end in (self.low, self.high))
        return OpEffect("uniform", 0, (high - low, low, 0.0))

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`."""
        x = tf.convert_to_tensor(value)
        inside = (x >= self.low) & (x <= self.high)
        density = tf.constant(-math.log(self.high - self.low), x.dtype)
        return tf.where(inside, density, -math.inf)

    def scale_nodes(self) -> tuple[Float64Array, Float64Array]:
        """Returns logarithms of scales and of their weights, for integrals."""
        log_u, _, log_weight = unit_interval()
        scales, weights = [], []
        # The absolute values of the positive and of the negative part.
        for low, high in ((self.low, self.high), (-self.high, -self.low)):
            if high > 0:
                low = max(low, 0.0)
                log_length = math.log(high - low)
                log_low = math.log(low) if low > 0 else -math.inf
                scales.append(np.logaddexp(log_low, log_length + log_u))
                share = log_length - math.log(self.high - self.low)
                weights.append(log_weight + share)
        return np.concatenate(scales), np.concatenate(weights)

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the distribution of `xi^2`."""
        return SquaredNoise(self, dtype, signed=self.low < 0)

    @property
    def has_pole(self) -> bool:
        """True if the density of a weight is infinite at zero."""
        return self.low <= 0 <= self.high

    def describe(self) -> str:
        """Returns the family and its parameters."""
        return f"uniform({self.low:g}, {self.high:g})"
