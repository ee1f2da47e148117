# SPDX-License-Identifier: Apache-2.0
"""Bernoulli noise: dropout with inverted scaling."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.noise.base import OpEffect
from keras_bayesdrop.noise.base import as_scalar
from keras_bayesdrop.noise.induced import SpikeAndSlab
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import keep_checked
from keras_bayesdrop.noise.multiplicative import register
from keras_bayesdrop.random.philox import rate_to_scale
from keras_bayesdrop.random.philox import rate_to_threshold


@register
@dataclasses.dataclass(frozen=True)
class Bernoulli(Multiplicative):
    """Drops a unit with probability `rate` and rescales the others.

        y = x * keep / (1 - rate),    keep ~ Bernoulli(1 - rate)

    The noise `xi` is `keep`, which equals its square. A weight times it has a
    spike-and-slab distribution:

        p(w) = rate * delta(w) + (1 - rate) * N(w; 0, sigma0^2)

    Attributes:
        rate: Float in `[0, 1]`. At 1 everything is dropped.

    Example:
    ```python
    noise = keras_bayesdrop.noise.Bernoulli(0.25)
    noise.variance  # 0.1875
    keras_bayesdrop.layers.MCDropout(noise=noise).rate  # 0.25
    ```
    """

    rate: float
    kind: ClassVar[str] = "bernoulli"
    has_op_effect: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks the rate."""
        keep_checked(self, rate=check_rate(self.rate))

    @property
    def active(self) -> bool:
        """True if the rate is above 0."""
        return self.rate > 0

    @property
    def mean(self) -> float:
        """`1 - rate`."""
        return 1.0 - self.rate

    @property
    def variance(self) -> float:
        """`rate * (1 - rate)`."""
        return self.rate * (1.0 - self.rate)

    @property
    def normalizer(self) -> float:
        """`1 - rate`, or 1 if the rate is 1 and everything is dropped."""
        return 1.0 - self.rate if self.rate < 1 else 1.0

    @property
    def threshold(self) -> int:
        """The smallest word of a unit that is kept."""
        return rate_to_threshold(self.rate)

    @property
    def scale(self) -> float:
        """The factor of a kept unit."""
        return rate_to_scale(self.rate)

    def op_settings(self) -> tuple[int, float]:
        """Returns the threshold and the scale."""
        return self.threshold, self.scale

    def op_effect(self) -> OpEffect:
        """Returns a mask."""
        return mask_effect(*self.op_settings())

    def quantile(self, u: Any) -> Any:
        """Returns 0 for `u` below the rate, else 1."""
        return keras.ops.cast(u >= self.rate, u.dtype)

    def from_words(self, words: tf.Tensor) -> tf.Tensor:
        """Returns 1.0 for words that are kept, in float64."""
        kept = words >= as_scalar(self.threshold, tf.uint32)
        # At rate 1 the largest word still reaches the threshold.
        return tf.cast(kept, tf.float64) * (self.rate < 1)

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-probability of 0 or 1."""
        x = tf.convert_to_tensor(value)
        probabilities = tf.constant([self.rate, 1.0 - self.rate], x.dtype)
        log_drop, log_keep = tf.unstack(tf.math.log(probabilities))
        log_other = tf.where(x == 0, log_drop, -math.inf)
        return tf.where(x == 1, log_keep, log_other)

    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the Bernoulli distribution of `xi^2`."""
        import tensorflow_probability as tfp

        probability = tf.constant(1.0 - self.rate, dtype)
        return tfp.distributions.Bernoulli(probs=probability, dtype=dtype)

    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> Any:
        """Returns the spike-and-slab distribution of a weight."""
        return SpikeAndSlab(self, check_positive(sigma0, "sigma0"), dtype)

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `keep / (1 - rate)`, in the shape of `words`."""
        return drop(x, words, self.threshold, self.scale)

    def describe(self) -> str:
        """Returns the family and its rate."""
        return f"Bernoulli, rate {self.rate:g}"


def drop(
    x: tf.Tensor, words: tf.Tensor, threshold: Any, scale: Any
) -> tf.Tensor:
    """Keeps the units whose word reaches `threshold`, times `scale`."""
    keep = words >= as_scalar(threshold, tf.uint32)
    return x * (tf.cast(keep, x.dtype) * as_scalar(scale, x.dtype))


def mask_effect(threshold: Any, scale: Any) -> OpEffect:
    """Returns the effect of `drop` in the compiled op."""
    return OpEffect("mask", threshold, (scale, 0.0, 0.0))
