# SPDX-License-Identifier: Apache-2.0
"""What dropout makes of a Gaussian weight."""

import math
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.induced.base import InducedPrior


class SpikeAndSlab(InducedPrior):
    """Zero with probability `rate`, and Gaussian otherwise.

        p(w) = rate * delta(w) + (1 - rate) * N(w; 0, sigma0^2)

    The density is one with respect to length plus a unit mass at zero: at
    `w = 0` it is the probability `rate`, and elsewhere that of the slab.
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


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
