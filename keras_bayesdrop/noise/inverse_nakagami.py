# SPDX-License-Identifier: Apache-2.0
"""Inverse Nakagami noise: a Student-t prior on the weights."""

import dataclasses
import functools
import math
from typing import Any
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.noise._quantile_table import QuantileTable
from keras_bayesdrop.noise._quantile_table import logit
from keras_bayesdrop.noise._quantile_table import tabulate
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register


@register
@dataclasses.dataclass(frozen=True)
class InverseNakagami(Multiplicative):
    """The root of an inverse gamma variable.

        p(xi) = 2 * b^a / Gamma(a) * xi^(-2 * a - 1) * exp(-b / xi^2)
        xi^2 ~ InverseGamma(a, b),    xi > 0

    with `a` the concentration and `b` the scale. `1 / xi` has the Nakagami
    distribution of shape `m = a` and spread `a / b`. A weight times `xi` has
    a Student-t distribution:

        w ~ StudentT(2 * a degrees of freedom, 0, sigma0 * sqrt(b / a))

    The mean is finite for `a > 1/2`, which layers need, and the variance for
    `a > 1`. A layer divides by the mean: `b` matters for priors only.

    Attributes:
        concentration: Positive float `a`, at least 0.01. The larger, the less
            the noise varies. Defaults to `3.0`.
        scale: Positive float `b`, in units of `xi^2`. Defaults to `3.0`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.InverseNakagami(3.0, 3.0)
    noise.mean  # 1.1512
    noise.marginal_prior().log_prob(1.0)  # -1.4999, 6 degrees of freedom
    layer = keras_bayesdrop.layers.MCDropout(noise=noise)
    ```
    """

    concentration: float = 3.0
    scale: float = 3.0
    kind: ClassVar[str] = "inverse_nakagami"

    def __post_init__(self) -> None:
        """Checks the parameters."""
        keep_checked(
            self,
            concentration=check_positive(self.concentration, "concentration"),
            scale=check_positive(self.scale, "scale"),
        )

    @property
    def mean(self) -> float:
        """`sqrt(b) * Gamma(a - 1/2) / Gamma(a)`."""
        a = self.concentration
        if a <= 0.5:
            return math.inf
        ratio = math.exp(math.lgamma(a - 0.5) - math.lgamma(a))
        return math.sqrt(self.scale) * ratio

    @property
    def variance(self) -> float:
        """`b / (a - 1) - mean^2`."""
        if self.concentration <= 1:
            return math.inf
        return self.scale / (self.concentration - 1) - self.mean**2

    @property
    def active(self) -> bool:
        """Always true; a tiny variance may round to 0."""
        return True

    def quantile(self, u: Any) -> Any:
        """Returns `sqrt(b / g)`, `g` the quantile at `1 - u` of Gamma(a)."""
        log_gamma = _log_gamma_table(self.concentration)(-logit(u))
        return math.sqrt(self.scale) * keras.ops.exp(-0.5 * log_gamma)

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`."""
        x = tf.convert_to_tensor(value)
        a, b = self.concentration, self.scale
        constant = math.log(2.0) + a * math.log(b) - math.lgamma(a)
        density = constant - (2 * a + 1) * tf.math.log(x) - b / x**2
        return tf.where(x > 0, density, -math.inf)

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the inverse gamma distribution of `xi^2`."""
        import tensorflow_probability as tfp

        return tfp.distributions.InverseGamma(
            tf.constant(self.concentration, dtype),
            tf.constant(self.scale, dtype),
        )

    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> Any:
        """Returns the Student-t distribution of a weight."""
        import tensorflow_probability as tfp

        root = math.sqrt(self.scale / self.concentration)
        return tfp.distributions.StudentT(
            tf.constant(2 * self.concentration, dtype),
            tf.constant(0.0, dtype),
            tf.constant(check_positive(sigma0, "sigma0") * root, dtype),
        )

    def describe(self) -> str:
        """Returns the family and its concentration."""
        return f"inverse Nakagami, concentration {self.concentration:g}"


@functools.lru_cache(maxsize=64)
def _log_gamma_table(a: float) -> QuantileTable:
    """Returns the table of the logarithm of a Gamma(a, 1) variable."""
    return tabulate(lambda y: a * y - np.exp(y), math.log(a))
