# SPDX-License-Identifier: Apache-2.0
"""Additive Gaussian noise."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.base import OpEffect
from keras_bayesdrop.random.philox import words_to_normal


@dataclasses.dataclass(frozen=True)
class AdditiveGaussian(Noise):
    """Adds a centred Gaussian, as `keras.layers.GaussianNoise` does.

        y = x + stddev * z,    z ~ N(0, 1)

    Attributes:
        stddev: Non-negative float.
    """

    stddev: float
    kind: ClassVar[str] = "additive_gaussian"
    has_op_effect: ClassVar[bool] = True

    @property
    def active(self) -> bool:
        """True if the variance is above 0."""
        return self.stddev > 0

    def op_effect(self) -> OpEffect:
        """Returns a Gaussian that is added."""
        return OpEffect("added_gaussian", 0, (self.stddev, 0.0, 0.0))

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Adds `stddev * z`."""
        draw = words_to_normal(words, x.dtype)
        return x + tf.constant(self.stddev, x.dtype) * draw

    def describe(self) -> str:
        """Returns the family and its standard deviation."""
        return f"added Gaussian, std {self.stddev:g}"
