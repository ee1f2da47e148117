# SPDX-License-Identifier: Apache-2.0
"""The base class of induced priors, and the distribution of squared noise."""

import abc
import math
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import words_of
from keras_bayesdrop.random.philox import words_to_normal


class InducedPrior(abc.ABC):
    """The distribution of `w = xi * z`, `z ~ N(0, sigma0^2)`.

    The methods have the names of TensorFlow Probability.

    Args:
        noise: The distribution of `xi`.
        sigma0: Positive float.
        dtype: Floating dtype of the values.
    """

    def __init__(
        self, noise: Multiplicative, sigma0: float, dtype: str
    ) -> None:
        self.noise = noise
        self.sigma0 = sigma0
        self.dtype = tf.as_dtype(dtype)

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density at every entry of `value`."""
        return self._log_prob(tf.convert_to_tensor(value, self.dtype))

    def prob(self, value: Any) -> tf.Tensor:
        """Returns the density at every entry of `value`."""
        return tf.exp(self.log_prob(value))

    def sample(
        self, sample_shape: int | tuple[int, ...] = (), seed: int | None = None
    ) -> tf.Tensor:
        """Draws weights.

        Args:
            sample_shape: Int or tuple of ints.
            seed: Optional int. Makes the draws reproducible.

        Returns:
            A tensor.
        """
        sizes = _sizes(sample_shape)
        seed = check_seed(seed)
        xi = self.noise.from_words(words_of(sizes, seed, stream=0))
        z = words_to_normal(words_of(sizes, seed, stream=1), tf.float64)
        return tf.cast(self.sigma0 * xi * z, self.dtype)

    @abc.abstractmethod
    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        """Returns the log-density at every entry of a tensor of `dtype`."""


class SquaredNoise:
    """The distribution of `v = xi^2`, the variance factor of a weight.

        p(v) = (p_xi(sqrt(v)) + p_xi(-sqrt(v))) / (2 * sqrt(v)),    v > 0

    The methods have the names of TensorFlow Probability.

    Args:
        noise: The distribution of `xi`.
        dtype: Floating dtype of the values.
        signed: Whether `xi` may be negative.
    """

    def __init__(
        self, noise: Multiplicative, dtype: str, signed: bool = False
    ) -> None:
        self.noise = noise
        self.dtype = tf.as_dtype(dtype)
        self.signed = signed

    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density at every entry of `value`."""
        value = tf.convert_to_tensor(value, self.dtype)
        inside = value > 0
        root = tf.sqrt(tf.where(inside, value, tf.ones_like(value)))
        density = self.noise.log_prob(root)
        if self.signed:
            both = tf.stack([density, self.noise.log_prob(-root)])
            density = tf.reduce_logsumexp(both, axis=0)
        density -= math.log(2.0) + tf.math.log(root)
        return tf.where(inside, density, -math.inf)

    def prob(self, value: Any) -> tf.Tensor:
        """Returns the density at every entry of `value`."""
        return tf.exp(self.log_prob(value))

    def sample(
        self, sample_shape: int | tuple[int, ...] = (), seed: int | None = None
    ) -> tf.Tensor:
        """Draws variance factors.

        Args:
            sample_shape: Int or tuple of ints.
            seed: Optional int. Makes the draws reproducible.

        Returns:
            A tensor.
        """
        draws = self.noise.sample(sample_shape, check_seed(seed))
        return tf.cast(draws**2, self.dtype)


def _sizes(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
