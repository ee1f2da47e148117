# SPDX-License-Identifier: Apache-2.0
"""Gaussian noise around zero, which is used for its prior."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.noise.induced import NormalProduct
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register
from keras_bayesdrop.random.philox import words_to_normal


@register
@dataclasses.dataclass(frozen=True)
class CenteredGaussian(Multiplicative):
    """A Gaussian of mean zero.

        xi ~ N(0, scale^2)

    Its square is chi-squared, and the density of a weight times it is a Bessel
    function:

        xi^2 / scale^2 ~ chi^2 with 1 degree of freedom
        p(w) = K0(|w| / s) / (pi * s),    s = sigma0 * scale

    Its mean is zero, so that a layer cannot scale it to mean one. Layers
    refuse it; use `Gaussian` in layers.

    Attributes:
        scale: Positive float. Standard deviation. Defaults to `1.0`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.CenteredGaussian()
    noise.marginal_prior().log_prob(1.0)  # -2.0098
    ```
    """

    scale: float = 1.0
    kind: ClassVar[str] = "centered_gaussian"

    def __post_init__(self) -> None:
        """Checks the scale."""
        keep_checked(self, scale=check_positive(self.scale, "scale"))

    @property
    def mean(self) -> float:
        """Zero."""
        return 0.0

    @property
    def variance(self) -> float:
        """`scale^2`."""
        return self.scale**2

    def quantile(self, u: Any) -> Any:
        """Returns `scale` times the normal quantile at `u`."""
        return self.scale * math.sqrt(2.0) * keras.ops.erfinv(2.0 * u - 1.0)

    def from_words(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the draws of `xi` that words encode, in float64."""
        return self.scale * words_to_normal(words, tf.float64)

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`."""
        x = tf.convert_to_tensor(value) / self.scale
        return -0.5 * x**2 - math.log(self.scale * math.sqrt(2 * math.pi))

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the distribution of `xi^2`, `scale^2` times chi-squared."""
        import tensorflow_probability as tfp

        return tfp.distributions.Gamma(
            tf.constant(0.5, dtype), tf.constant(0.5 / self.scale**2, dtype)
        )

    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> Any:
        """Returns the distribution of a weight, a generalized hyperbolic."""
        return NormalProduct(self, check_positive(sigma0, "sigma0"), dtype)

    def describe(self) -> str:
        """Returns the family and its standard deviation."""
        return f"centred Gaussian, std {self.scale:g}"
