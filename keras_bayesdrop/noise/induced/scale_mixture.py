# SPDX-License-Identifier: Apache-2.0
"""What any noise makes of a Gaussian weight, by quadrature."""

import math

import tensorflow as tf

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.noise.induced.base import InducedPrior
from keras_bayesdrop.noise.multiplicative import Multiplicative

# Of `w^2 / (2 * variance)`: what is beyond has no weight, and no gradient.
_LARGEST_LOG = 40.0
# In units of sigma0: where the points of the integrals begin to run out.
_LOG_SMALLEST = -60.0


class ScaleMixture(InducedPrior):
    """A Gaussian of random scale, its density integrated numerically.

        p(w) = integral{ N(w; 0, sigma0^2 * xi^2) * p(xi) dxi }
            ~= sum{ N(w; 0, sigma0^2 * x[k]^2) * weight[k] : k }

    A call takes as many operations for each value as there are points: one or
    two thousand.

    Args:
        noise: The distribution of `xi`.
        sigma0: Positive float.
        dtype: Floating dtype of the values.
        log_scales: Array [points] of `log(x)`, for the values of `|xi|`.
        log_weights: Array [points].
        pole: Whether the density is infinite at zero.
    """

    def __init__(
        self,
        noise: Multiplicative,
        sigma0: float,
        dtype: str,
        log_scales: Float64Array,
        log_weights: Float64Array,
        pole: bool,
    ) -> None:
        super().__init__(noise, sigma0, dtype)
        self.pole = pole
        constant = 0.5 * math.log(2 * math.pi) + math.log(sigma0)
        self._log_scales = log_scales
        self._log_heights = log_weights - log_scales - constant

    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        log_scales = tf.constant(self._log_scales, self.dtype)
        log_heights = tf.constant(self._log_heights, self.dtype)
        distance = tf.abs(value)[..., None] / self.sigma0
        log_distance = tf.math.log(
            tf.maximum(distance, math.exp(_LOG_SMALLEST))
        )
        log_squares = 2.0 * (log_distance - log_scales) - math.log(2.0)
        exponents = tf.exp(tf.minimum(log_squares, _LARGEST_LOG))
        density = tf.reduce_logsumexp(log_heights - exponents, axis=-1)
        if self.pole:
            infinity = tf.constant(math.inf, self.dtype)
            density = tf.where(value == 0, infinity, density)
        return density
