# SPDX-License-Identifier: Apache-2.0
"""Multiplicative Gaussian noise."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.noise.base import OpEffect
from keras_bayesdrop.noise.base import as_scalar
from keras_bayesdrop.noise.induced import IntegratedNoise
from keras_bayesdrop.noise.induced import ScaleMixture
from keras_bayesdrop.noise.induced import SquaredNoise
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register
from keras_bayesdrop.random.philox import words_to_normal


@register
@dataclasses.dataclass(frozen=True)
class Gaussian(IntegratedNoise):
    """Multiplies by a Gaussian with the mean and variance of dropout.

        y = x * (1 + sqrt(rate / (1 - rate)) * z),    z ~ N(0, 1)

    The noise is `xi ~ N(1, s^2)` with `s^2 = rate / (1 - rate)`. Its square,
    divided by `s^2`, is non-central chi-squared with one degree of freedom and
    parameter `1 / s^2`. For noise around zero, whose square is chi-squared, see
    `CenteredGaussian`.

    Attributes:
        rate: Float in `[0, 1)`.

    Example:
    ```python
    noise = keras_bayesdrop.noise.Gaussian(0.2)
    noise.variance  # 0.25
    layer = keras_bayesdrop.layers.MCDropout(noise=noise)
    ```
    """

    rate: float
    kind: ClassVar[str] = "gaussian"
    has_op_effect: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks the rate."""
        keep_checked(self, rate=check_rate(self.rate, below_one=True))

    @property
    def mean(self) -> float:
        """One."""
        return 1.0

    @property
    def variance(self) -> float:
        """`rate / (1 - rate)`."""
        return self.rate / (1.0 - self.rate)

    @property
    def stddev(self) -> float:
        """Standard deviation of the multiplier."""
        return math.sqrt(self.variance)

    def op_settings(self) -> tuple[int, float]:
        """Returns 0 as the threshold, and the standard deviation."""
        return 0, self.stddev

    def op_effect(self) -> OpEffect:
        """Returns a Gaussian factor."""
        return factor_effect(self.stddev)

    def quantile(self, u: Any) -> Any:
        """Returns `1 + stddev * z`, `z` the normal quantile at `u`."""
        draw = math.sqrt(2.0) * keras.ops.erfinv(2.0 * u - 1.0)
        return 1.0 + self.stddev * draw

    def from_words(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the draws of `xi` that words encode, in float64."""
        return 1.0 + self.stddev * words_to_normal(words, tf.float64)

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`; the rate must not be 0."""
        x = tf.convert_to_tensor(value)
        constant = math.log(self.stddev) + 0.5 * math.log(2 * math.pi)
        return -0.5 * ((x - 1.0) / self.stddev) ** 2 - constant

    def scale_nodes(self) -> tuple[Float64Array, Float64Array]:
        """Returns logarithms of scales and of their weights, for integrals.

        The points are `s * log(1 + exp(t))`. Towards 0 their logarithms are
        equally spaced; beyond, the points are, with steps of a tenth of `s`.
        """
        s, step = self.stddev, 0.1
        first = -80.0 if s > 1 / 60 else 1 / s - 45.0
        t = np.arange(first, 1 / s + 40.0, step)
        log_x = math.log(s) + np.log(np.logaddexp(0.0, t))
        x = np.exp(log_x)
        squares = np.logaddexp(
            -0.5 * ((x - 1.0) / s) ** 2, -0.5 * ((x + 1.0) / s) ** 2
        )
        log_slope = -np.logaddexp(0.0, -t) + math.log(step)
        return log_x, squares + log_slope - 0.5 * math.log(2 * math.pi)

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the non-central chi-squared distribution of `xi^2`."""
        self._check_varies()
        return SquaredNoise(self, dtype, signed=True)

    @property
    def has_pole(self) -> bool:
        """True if the density of a weight is infinite at zero."""
        return True

    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> ScaleMixture:
        """Returns the distribution of a weight, by quadrature."""
        self._check_varies()
        return super().marginal_prior(sigma0, dtype)

    def _check_varies(self) -> None:
        if not self.active:
            raise invalid("rate", self.rate, "a float in (0, 1) for a prior")

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `1 + stddev * z`."""
        return perturb(x, words, self.stddev)

    def describe(self) -> str:
        """Returns the family and its rate."""
        return f"Gaussian, rate {self.rate:g}"


def perturb(x: tf.Tensor, words: tf.Tensor, stddev: Any) -> tf.Tensor:
    """Multiplies by `1 + stddev * z`, with `z` the normal draw of a word."""
    draw = words_to_normal(words, x.dtype)
    return x * (1.0 + as_scalar(stddev, x.dtype) * draw)


def factor_effect(stddev: Any) -> OpEffect:
    """Returns the effect of `perturb` in the compiled op."""
    return OpEffect("gaussian", 0, (stddev, 0.0, 0.0))
