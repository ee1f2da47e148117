# SPDX-License-Identifier: Apache-2.0
"""Induced priors whose density has a closed form."""

import math
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.induced.base import InducedPrior

_SERIES_TERMS = 20
_FRACTION_TERMS = 60
_EULER = 0.57721566490153286061


class SpikeAndSlab(InducedPrior):
    """The prior of dropout: zero with probability `rate`, else Gaussian.

        p(w) = rate * delta(w) + (1 - rate) * N(w; 0, sigma0^2)

    The density is taken with respect to length plus a unit mass at zero. At
    `w = 0` it is the probability `rate`; elsewhere it is that of the slab.
    """

    def __init__(self, noise: Any, sigma0: float, dtype: str) -> None:
        super().__init__(noise, sigma0, dtype)
        self.spike_probability = float(noise.rate)

    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        rate = self.spike_probability
        constant = _log(1.0 - rate) - math.log(self.sigma0)
        constant -= 0.5 * math.log(2 * math.pi)
        slab = constant - 0.5 * (value / self.sigma0) ** 2
        if rate == 0:
            return slab
        spike = tf.constant(math.log(rate), self.dtype)
        return tf.where(value == 0, spike, slab)


class NormalProduct(InducedPrior):
    """The prior of centred Gaussian noise: a product of two Gaussians.

        p(w) = K0(|w| / s) / (pi * s),    s = sigma0 * scale

    with `K0` the modified Bessel function. It is a generalized hyperbolic
    distribution, with a pole at zero and the tails of the Laplace
    distribution.
    """

    def __init__(self, noise: Any, sigma0: float, dtype: str) -> None:
        super().__init__(noise, sigma0, dtype)
        self.scale = sigma0 * float(noise.scale)

    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        distance = tf.abs(value) / self.scale
        bessel = tf.math.log(tf.math.special.bessel_k0e(distance)) - distance
        return bessel - math.log(math.pi * self.scale)


class Horseshoe(InducedPrior):
    """The prior of half-Cauchy noise: the horseshoe distribution.

        p(w) = exp(y) * E1(y) / (sqrt(2 * pi^3) * s)
        y = w^2 / (2 * s^2),    s = sigma0 * scale

    with `E1` the exponential integral. It has a pole at zero, and tails like
    `1 / w^2`. (`tfp.distributions.Horseshoe` approximates it: the error of the
    logarithm is up to 0.0006 at `w = 3`.)

    References:
        - [Carvalho et al., 2009](https://proceedings.mlr.press/v5/carvalho09a.html).
    """

    def __init__(self, noise: Any, sigma0: float, dtype: str) -> None:
        super().__init__(noise, sigma0, dtype)
        self.scale = sigma0 * float(noise.scale)

    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        y = 0.5 * (value / self.scale) ** 2
        constant = 0.5 * math.log(2 * math.pi**3) + math.log(self.scale)
        return tf.math.log(_scaled_e1(y)) - constant


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _scaled_e1(y: tf.Tensor) -> tf.Tensor:
    """Returns `exp(y) * E1(y)` for `y >= 0`."""
    small = y < 1
    return tf.where(
        small,
        _by_series(tf.where(small, y, tf.ones_like(y))),
        _by_fraction(tf.where(small, tf.ones_like(y), y)),
    )


def _by_series(y: tf.Tensor) -> tf.Tensor:
    """Returns `exp(y) * E1(y)` for `y` up to 1.

    By the series

        E1(y) = -gamma - log(y) - sum{ (-y)^k / (k * k!) : k }
    """
    total = tf.zeros_like(y)
    for k in range(_SERIES_TERMS, 0, -1):
        # Horner's rule: sum{ (-y)^k / (k * k!) } from the last term on.
        total = -y / k * (1.0 / k + total)
    return tf.exp(y) * (-_EULER - tf.math.log(y) - total)


def _by_fraction(y: tf.Tensor) -> tf.Tensor:
    """Returns `exp(y) * E1(y)` for `y` from 1 on.

    By the continued fraction

        1 / (y + 1 - 1 / (y + 3 - 4 / (y + 5 - 9 / ...)))
    """
    below = y + (2.0 * _FRACTION_TERMS + 1.0)
    for k in range(_FRACTION_TERMS, 0, -1):
        below = y + (2.0 * k - 1.0) - float(k * k) / below
    return 1.0 / below
