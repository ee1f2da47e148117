# SPDX-License-Identifier: Apache-2.0
"""Log-normal noise."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.noise.base import OpEffect
from keras_bayesdrop.noise.induced import IntegratedNoise
from keras_bayesdrop.noise.multiplicative import check_finite
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register
from keras_bayesdrop.random.philox import words_to_normal


@register
@dataclasses.dataclass(frozen=True)
class LogNormal(IntegratedNoise):
    """The exponential of a Gaussian, divided by its mean.

        xi = exp(loc + scale * e),    e ~ N(0, 1)

    Its square is log-normal too, with twice the `loc` and the `scale`. A layer
    divides by the mean: `loc` matters for priors only.

    Attributes:
        loc: Float. Mean of the logarithm. Defaults to `0.0`.
        scale: Positive float. Standard deviation of the logarithm. Defaults
            to `0.5`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.LogNormal(scale=0.5)
    noise.mean  # 1.1331
    layer = keras_bayesdrop.layers.MCDropout(noise=noise)
    ```

    References:
        - [Achille and Soatto, 2018](https://arxiv.org/abs/1611.01353).
    """

    loc: float = 0.0
    scale: float = 0.5
    kind: ClassVar[str] = "log_normal"
    has_op_effect: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks the parameters."""
        loc = check_finite(self.loc, "loc")
        scale = check_positive(self.scale, "scale")
        keep_checked(self, loc=loc, scale=scale)

    @property
    def mean(self) -> float:
        """`exp(loc + scale^2 / 2)`."""
        return _exp(self.loc + 0.5 * self.scale**2)

    @property
    def variance(self) -> float:
        """`mean^2 * (exp(scale^2) - 1)`."""
        spread = self.scale**2
        if spread > 1:
            return _exp(2 * (self.loc + spread)) * -math.expm1(-spread)
        return _exp(2 * self.loc + spread) * math.expm1(spread)

    def quantile(self, u: Any) -> Any:
        """Returns `exp(loc + scale * e)`, `e` the normal quantile at `u`."""
        draw = math.sqrt(2.0) * keras.ops.erfinv(2.0 * u - 1.0)
        return keras.ops.exp(self.loc + self.scale * draw)

    def from_words(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the draws of `xi` that words encode, in float64.

        The normal quantile is precise in both tails.
        """
        draw = words_to_normal(words, tf.float64)
        return tf.exp(self.loc + self.scale * draw)

    def op_effect(self) -> OpEffect:
        """Returns a log-normal factor."""
        # The mean is divided out: loc - log(mean).
        return OpEffect(
            "log_normal", 0, (self.scale, -(self.scale**2) / 2, 0.0)
        )

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`."""
        x = tf.convert_to_tensor(value)
        log_x = tf.math.log(x)
        constant = math.log(self.scale) + 0.5 * math.log(2 * math.pi)
        squares = ((log_x - self.loc) / self.scale) ** 2
        density = -0.5 * squares - log_x - constant
        return tf.where(x > 0, density, -math.inf)

    def scale_nodes(self) -> tuple[Float64Array, Float64Array]:
        """Returns logarithms of scales and of their weights, for integrals."""
        step = 0.05 / max(1.0, self.scale)
        e = np.arange(-40.0, 40.0, step)
        log_weight = math.log(step) - 0.5 * (e**2 + math.log(2 * math.pi))
        return self.loc + self.scale * e, log_weight

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the log-normal distribution of `xi^2`."""
        import tensorflow_probability as tfp

        return tfp.distributions.LogNormal(
            tf.constant(2 * self.loc, dtype), tf.constant(2 * self.scale, dtype)
        )

    @property
    def has_pole(self) -> bool:
        """True if the density of a weight is infinite at zero."""
        return False

    def describe(self) -> str:
        """Returns the family and its `scale`."""
        return f"log-normal, scale {self.scale:g}"


def _exp(x: float) -> float:
    """Returns `exp(x)`, or infinity where it overflows."""
    return math.exp(x) if x < 709 else math.inf
