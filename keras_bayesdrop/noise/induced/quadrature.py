# SPDX-License-Identifier: Apache-2.0
"""Induced priors whose density is integrated numerically.

The points of integrals over the unit interval come from the substitution

    x = 1 / (1 + exp(-y)),    y = t + exp(t)

It moves both ends to infinity. There, equally spaced points converge faster
than any power of their distance, for every behaviour of the integrand at the
ends. Towards 0 the points are equally spaced in `log(x)`, because only scales
from about `|w|` on matter for a weight `w`. Towards 1 they crowd.
"""

import abc
import math

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.noise.induced.base import InducedPrior
from keras_bayesdrop.noise.multiplicative import Multiplicative

_STEP = 0.05
_FIRST = -80.0  # x = 2e-35
_LAST = 9.0  # 1 - x = exp(-8112)

# Largest logarithm of `w^2 / (2 * variance)`. Points beyond it have no weight
# and no gradient.
_LARGEST_LOG = 40.0
# Smallest `log(|w| / sigma0)`. Below it there are too few points.
_LOG_SMALLEST = -60.0

Nodes = tuple[Float64Array, Float64Array, Float64Array]


def unit_interval() -> Nodes:
    """Returns `log(x)`, `log(1 - x)` and the log-weight of every point."""
    t = np.arange(_FIRST, _LAST, _STEP)
    return logit_nodes(t + np.exp(t), np.log1p(np.exp(t)) + math.log(_STEP))


def logit_nodes(y: Float64Array, log_step: Float64Array | float) -> Nodes:
    """Returns the three for points at `y = log(x / (1 - x))`.

    Args:
        y: Array [points].
        log_step: Logarithm of the distance between points, for each point.
    """
    log_x = -np.logaddexp(0.0, -y)
    log_rest = -np.logaddexp(0.0, y)
    return log_x, log_rest, log_x + log_rest + log_step


class ScaleMixture(InducedPrior):
    """A Gaussian of random scale, its density integrated numerically.

        p(w) = integral{ N(w; 0, sigma0^2 * xi^2) * p(xi) dxi }
            ~= sum{ N(w; 0, sigma0^2 * x[k]^2) * weight[k] : k }

    A call takes one or two thousand operations per value, one for each point.

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


class IntegratedNoise(Multiplicative):
    """Noise whose prior of a weight has no closed form: a `ScaleMixture`."""

    @property
    @abc.abstractmethod
    def has_pole(self) -> bool:
        """True if the density of a weight is infinite at zero."""

    @abc.abstractmethod
    def scale_nodes(self) -> tuple[Float64Array, Float64Array]:
        """Returns logarithms of scales and of their weights, for integrals."""

    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> ScaleMixture:
        """Returns the distribution of a weight, by quadrature."""
        return ScaleMixture(
            self,
            check_positive(sigma0, "sigma0"),
            dtype,
            *self.scale_nodes(),
            pole=self.has_pole,
        )
