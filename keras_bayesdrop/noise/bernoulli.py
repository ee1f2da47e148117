# SPDX-License-Identifier: Apache-2.0
"""Bernoulli noise: dropout with inverted scaling."""

import dataclasses
from typing import Any
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop._rng import rate_to_scale
from keras_bayesdrop._rng import rate_to_threshold
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.base import as_scalar


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

    def op_settings(self) -> tuple[int, float]:
        """Returns the threshold and the scale."""
        return self.threshold, self.scale

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `keep / (1 - rate)`, made at the shape of `words`."""
        return drop(x, words, self.threshold, self.scale)

    def describe(self) -> str:
        """Returns the family and its rate."""
        return f"Bernoulli, rate {self.rate:g}"


def drop(
    x: tf.Tensor, words: tf.Tensor, threshold: Any, scale: Any
) -> tf.Tensor:
    """Keeps the units whose word reaches `threshold`, times `scale`."""
    keep = words >= as_scalar(threshold, tf.uint32)
    return x * (tf.cast(keep, x.dtype) * as_scalar(scale, x.dtype))
