# SPDX-License-Identifier: Apache-2.0
"""Bernoulli noise: dropout with inverted scaling."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop._rng import rate_to_scale
from keras_bayesdrop._rng import rate_to_threshold
from keras_bayesdrop.noise.base import Noise


@dataclasses.dataclass(frozen=True)
class Bernoulli(Noise):
    """Drops a unit with probability `rate` and rescales those that stay.

        y = x * keep / (1 - rate),    keep ~ Bernoulli(1 - rate)

    Attributes:
        rate: Float in `[0, 1]`. At 1 everything is dropped.
    """

    rate: float
    kind: ClassVar[str] = "bernoulli"

    @property
    def active(self) -> bool:
        """Whether anything can be dropped."""
        return self.rate > 0

    @property
    def threshold(self) -> int:
        """The smallest word of a unit that is kept."""
        return rate_to_threshold(self.rate)

    @property
    def scale(self) -> float:
        """What a kept unit is multiplied by."""
        return rate_to_scale(self.rate)

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `keep / (1 - rate)`, made at the shape of `words`."""
        keep = words >= tf.constant(self.threshold, tf.uint32)
        return x * (tf.cast(keep, x.dtype) * tf.constant(self.scale, x.dtype))

    def describe(self) -> str:
        """Returns the family and its rate."""
        return f"Bernoulli, rate {self.rate:g}"
