# SPDX-License-Identifier: Apache-2.0
"""What the induced priors have in common."""

import abc
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import check_seed
from keras_bayesdrop.noise.multiplicative import words_of
from keras_bayesdrop.random.philox import words_to_normal


class InducedPrior(abc.ABC):
    """The distribution of `w = xi * z`, `z ~ N(0, sigma0^2)`.

    Its methods are named as those of TensorFlow Probability.

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


def _sizes(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
