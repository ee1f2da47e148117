# SPDX-License-Identifier: Apache-2.0
"""The Gaussian distribution of a kernel.

With `theta` the kernel and `e ~ N(0, 1)`, a draw of a weight is

    additive        w = theta + sigma * e
    multiplicative  w = theta * (1 + sqrt(alpha) * e)
    correlated      the same, with one `e` for all weights of an input unit

and `alpha = sigma^2 / theta^2` in all of them.
"""

import dataclasses
import math
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.random.philox import words_to_normal

# Least and largest log alpha.
Limits = tuple[float, float]

# Added to theta^2, whose logarithm must be finite.
_TINY = 1e-16
# Of log alpha: nothing above has an exponential in float32.
_LARGEST_LOG = 80.0


@dataclasses.dataclass(frozen=True)
class GaussianWeights:
    """Independent Gaussian weights, or weights with one factor a row.

    Attributes:
        kernel: Variable or tensor of the means `theta`.
        log_noise: Variable or tensor: log sigma^2 if additive, log alpha
            otherwise, of a shape that broadcasts with the kernel.
        parametrization: `"additive"`, `"multiplicative"` or `"correlated"`.
        limits: Least and largest log alpha, or `None` for no limits.
        dtype: Of all that is computed here: float32 or better.
    """

    kernel: Any
    log_noise: Any
    parametrization: str
    limits: Limits | None
    dtype: str

    @property
    def correlated(self) -> bool:
        """True if all weights of an input unit have one factor."""
        return self.parametrization == "correlated"

    @property
    def num_draws(self) -> int:
        """The number of normal numbers in a draw of the weights."""
        shape = self.kernel.shape
        return int(shape[-2] if self.correlated else math.prod(shape))

    def mean(self) -> Any:
        """Returns `theta`."""
        return keras.ops.cast(self.kernel, self.dtype)

    def log_alpha(self) -> Any:
        """Returns `log(sigma^2 / theta^2)`, which broadcasts to the kernel."""
        log_alpha = keras.ops.cast(self.log_noise, self.dtype)
        if self.parametrization == "additive":
            log_alpha = log_alpha - keras.ops.log(self._square())
        return clip(log_alpha, self.limits)

    def relative_stddev(self) -> Any:
        """Returns `sqrt(alpha)`, which broadcasts to the kernel."""
        return keras.ops.exp(0.5 * self.log_alpha())

    def variance(self) -> Any:
        """Returns `sigma^2` of each weight."""
        if self.parametrization == "additive" and self.limits is None:
            return keras.ops.exp(keras.ops.cast(self.log_noise, self.dtype))
        return keras.ops.exp(self.log_alpha()) * self._square()

    def log_variance(self) -> Any:
        """Returns `log sigma^2` of each weight, without limits."""
        log_noise = keras.ops.cast(self.log_noise, self.dtype)
        if self.parametrization == "additive":
            return log_noise
        return log_noise + keras.ops.log(self._square())

    def second_moments(self) -> Any:
        """Returns `theta^2 + sigma^2`, also where `theta` is zero."""
        return keras.ops.square(self.mean()) + self.variance()

    def means_below(self, threshold: float | None) -> Any:
        """Returns `theta`, zero where log alpha is above a threshold."""
        theta = self.mean()
        if threshold is None:
            return theta
        factor = math.exp(min(threshold, _LARGEST_LOG))
        largest = factor * self._square()
        return keras.ops.where(self.variance() <= largest, theta, 0.0)

    def sample(self, words: tf.Tensor) -> Any:
        """Returns the kernel that words encode.

        Args:
            words: uint32 tensor [num_draws].
        """
        theta = self.mean()
        draw = words_to_normal(words, theta.dtype)
        if self.correlated:
            draw = tf.reshape(draw, [-1, 1])
            return theta * (1.0 + self.relative_stddev() * draw)
        sigma = keras.ops.sqrt(self.variance())
        return theta + sigma * tf.reshape(draw, theta.shape)

    def _square(self) -> Any:
        """Returns theta^2, and a little more."""
        return keras.ops.square(self.mean()) + _TINY


def clip(log_alpha: Any, limits: Limits | None) -> Any:
    """Clips log alpha, and leaves it a way back.

    Beyond a limit the gradient of a plain clip is zero: a weight that got
    there would stay. Here a gradient that leads back inside is passed on, and
    only one that leads further out is not.
    """
    if limits is None:
        return log_alpha
    low, high = limits

    @keras.ops.custom_gradient
    def clipped(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            # Descent goes against the gradient.
            outwards = keras.ops.where(upstream < 0, x > high, x < low)
            return keras.ops.where(outwards, 0.0, upstream)

        return keras.ops.clip(x, low, high), gradient

    return clipped(log_alpha)
