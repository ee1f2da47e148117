# SPDX-License-Identifier: Apache-2.0
"""What half-Cauchy noise makes of a Gaussian weight."""

import math
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.induced.base import InducedPrior

_SERIES_TERMS = 20
_FRACTION_TERMS = 60
_EULER = 0.57721566490153286061


class Horseshoe(InducedPrior):
    """The horseshoe distribution.

        p(w) = exp(y) * E1(y) / (sqrt(2 * pi^3) * s)
        y = w^2 / (2 * s^2),    s = sigma0 * scale

    with `E1` the exponential integral: a pole at zero, and tails like
    `1 / w^2`. (`tfp.distributions.Horseshoe` has an approximation of it, off
    by up to 0.0006 in the logarithm at `w = 3`.)

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


def _scaled_e1(y: tf.Tensor) -> tf.Tensor:
    """Returns `exp(y) * E1(y)` for `y >= 0`."""
    small = y < 1
    return tf.where(
        small,
        _by_series(tf.where(small, y, tf.ones_like(y))),
        _by_fraction(tf.where(small, tf.ones_like(y), y)),
    )


def _by_series(y: tf.Tensor) -> tf.Tensor:
    """Up to 1: `E1(y) = -gamma - log(y) - sum{ (-y)^k / (k * k!) : k }`."""
    total = tf.zeros_like(y)
    for k in range(_SERIES_TERMS, 0, -1):
        # Horner's rule: sum{ (-y)^k / (k * k!) } from the last term on.
        total = -y / k * (1.0 / k + total)
    return tf.exp(y) * (-_EULER - tf.math.log(y) - total)


def _by_fraction(y: tf.Tensor) -> tf.Tensor:
    """From 1 on: `1 / (y + 1 - 1 / (y + 3 - 4 / (y + 5 - 9 / ...)))`."""
    below = y + (2.0 * _FRACTION_TERMS + 1.0)
    for k in range(_FRACTION_TERMS, 0, -1):
        below = y + (2.0 * k - 1.0) - float(k * k) / below
    return 1.0 / below
