# SPDX-License-Identifier: Apache-2.0
"""The distribution of a squared noise: the prior of a weight's variance."""

import math
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.multiplicative import check_seed


class SquaredNoise:
    """The distribution of `v = xi^2`.

        p(v) = (p_xi(sqrt(v)) + p_xi(-sqrt(v))) / (2 * sqrt(v)),    v > 0

    Its methods are named as those of TensorFlow Probability.

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
        """Draws variances.

        Args:
            sample_shape: Int or tuple of ints.
            seed: Optional int. Makes the draws reproducible.

        Returns:
            A tensor.
        """
        draws = self.noise.sample(sample_shape, check_seed(seed))
        return tf.cast(draws**2, self.dtype)
