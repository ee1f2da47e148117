# SPDX-License-Identifier: Apache-2.0
"""What centred Gaussian noise makes of a Gaussian weight."""

import math
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.induced.base import InducedPrior


class NormalProduct(InducedPrior):
    """The product of two centred Gaussians, a generalized hyperbolic.

        p(w) = K0(|w| / s) / (pi * s),    s = sigma0 * scale

    with `K0` the modified Bessel function. It has a pole at zero and tails
    like those of the Laplace distribution.
    """

    def __init__(self, noise: Any, sigma0: float, dtype: str) -> None:
        super().__init__(noise, sigma0, dtype)
        self.scale = sigma0 * float(noise.scale)

    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        distance = tf.abs(value) / self.scale
        bessel = tf.math.log(tf.math.special.bessel_k0e(distance)) - distance
        return bessel - math.log(math.pi * self.scale)
