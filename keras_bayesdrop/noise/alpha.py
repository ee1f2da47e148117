# SPDX-License-Identifier: Apache-2.0
"""Alpha dropout, which keeps the mean and variance of SELU networks."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.base import OpEffect
from keras_bayesdrop.random.philox import rate_to_threshold

# The negative saturation value of SELU, -alpha * scale.
_SATURATION = (
    -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946
)


@dataclasses.dataclass(frozen=True)
class Alpha(Noise):
    """Sets dropped units to SELU's saturation value, then standardises.

        y = a * (keep * x + (1 - keep) * s) + b,
        a = ((1 - rate) * (1 + rate * s^2))^(-1/2),    b = -a * s * rate

    Attributes:
        rate: Float in `[0, 1)`.
    """

    rate: float
    kind: ClassVar[str] = "alpha"
    has_op_effect: ClassVar[bool] = True

    @property
    def active(self) -> bool:
        """True if the rate is above 0."""
        return self.rate > 0

    def op_effect(self) -> OpEffect:
        """Returns the replacement of dropped units."""
        threshold = rate_to_threshold(self.rate)
        return OpEffect("alpha", threshold, (*self._affine(), _SATURATION))

    def _affine(self) -> tuple[float, float]:
        """Returns `a` and `b`."""
        a = ((1 - self.rate) * (1 + self.rate * _SATURATION**2)) ** -0.5
        return a, -a * _SATURATION * self.rate

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Replaces dropped units and applies the affine correction."""
        a, b = self._affine()
        dropped = words < tf.constant(rate_to_threshold(self.rate), tf.uint32)
        dropped = tf.cast(dropped, x.dtype)
        saturated = tf.constant(_SATURATION, x.dtype) * dropped
        y = x * (1.0 - dropped) + saturated
        return tf.constant(a, x.dtype) * y + tf.constant(b, x.dtype)

    def describe(self) -> str:
        """Returns the family and its rate."""
        return f"alpha, rate {self.rate:g}"
