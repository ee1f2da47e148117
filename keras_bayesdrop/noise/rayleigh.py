# SPDX-License-Identifier: Apache-2.0
"""Rayleigh noise: a Laplace prior on the weights."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register


@register
@dataclasses.dataclass(frozen=True)
class Rayleigh(Multiplicative):
    """The length of a Gaussian vector in the plane.

        p(xi) = xi / scale^2 * exp(-xi^2 / (2 * scale^2)),    xi > 0
        xi = scale * sqrt(-2 * log(1 - u))

    Its square has an exponential distribution, and a weight times it has a
    Laplace distribution:

        xi^2 ~ Exponential(1 / (2 * scale^2))
        w ~ Laplace(0, scale * sigma0)

    A layer divides by the mean: the scale matters for priors only.

    Attributes:
        scale: Positive float. Defaults to `1.0`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.Rayleigh()
    noise.marginal_prior().log_prob(1.0)  # -1.6931, that of Laplace(0, 1)
    layer = keras_bayesdrop.layers.MCDropout(noise=noise)
    ```
    """

    scale: float = 1.0
    kind: ClassVar[str] = "rayleigh"

    def __post_init__(self) -> None:
        """Checks the scale."""
        keep_checked(self, scale=check_positive(self.scale, "scale"))

    @property
    def mean(self) -> float:
        """`scale * sqrt(pi / 2)`."""
        return self.scale * math.sqrt(math.pi / 2)

    @property
    def variance(self) -> float:
        """`scale^2 * (2 - pi / 2)`."""
        return self.scale**2 * (2 - math.pi / 2)

    def quantile(self, u: Any) -> Any:
        """Returns `scale * sqrt(-2 * log(1 - u))`."""
        return self.scale * keras.ops.sqrt(-2.0 * keras.ops.log1p(-u))

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`."""
        x = tf.convert_to_tensor(value) / self.scale
        density = tf.math.log(x) - 0.5 * x**2 - math.log(self.scale)
        return tf.where(x > 0, density, -math.inf)

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the exponential distribution of `xi^2`."""
        import tensorflow_probability as tfp

        rate = tf.constant(0.5 / self.scale**2, dtype)
        return tfp.distributions.Exponential(rate)

    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> Any:
        """Returns the Laplace distribution of a weight."""
        import tensorflow_probability as tfp

        scale = self.scale * check_positive(sigma0, "sigma0")
        return tfp.distributions.Laplace(
            tf.constant(0.0, dtype), tf.constant(scale, dtype)
        )

    def describe(self) -> str:
        """Returns the family."""
        return "Rayleigh"
