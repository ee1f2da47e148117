# SPDX-License-Identifier: Apache-2.0
"""Multiplicative Gaussian noise."""

import dataclasses
import math
from typing import Any
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop._rng import words_to_normal
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.base import as_scalar


@dataclasses.dataclass(frozen=True)
class Gaussian(Noise):
    """Multiplies by a Gaussian with the mean and variance of dropout.

        y = x * (1 + sqrt(rate / (1 - rate)) * z),    z ~ N(0, 1)

    Attributes:
        rate: Float in `[0, 1)`.
    """

    rate: float
    kind: ClassVar[str] = "gaussian"

    @property
    def active(self) -> bool:
        """Whether the noise has any variance."""
        return self.rate > 0

    @property
    def stddev(self) -> float:
        """Standard deviation of the multiplier."""
        return math.sqrt(self.rate / (1.0 - self.rate))

    def op_settings(self) -> tuple[int, float]:
        """Returns no threshold, and the standard deviation."""
        return 0, self.stddev

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `1 + stddev * z`."""
        return perturb(x, words, self.stddev)

    def describe(self) -> str:
        """Returns the family and its rate."""
        return f"Gaussian, rate {self.rate:g}"


def perturb(x: tf.Tensor, words: tf.Tensor, stddev: Any) -> tf.Tensor:
    """Multiplies by `1 + stddev * z`, `z` the normal draw of a word."""
    draw = words_to_normal(words, x.dtype)
    return x * (1.0 + as_scalar(stddev, x.dtype) * draw)
