# SPDX-License-Identifier: Apache-2.0
"""Noise on the weights of a layer."""

import dataclasses
import weakref
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.source import WeightNoiseSource


@dataclasses.dataclass(frozen=True)
class WeightNoise(Noise):
    """Draws the weights of a layer anew, and calls it with them.

    Attributes:
        source: The layer. Weak, because what is compiled for a model is kept
            by its noise, and must not keep the model.
        description: Of the distribution, for tables.
    """

    source: weakref.ref[WeightNoiseSource]
    description: str
    kind: ClassVar[str] = "weights"

    @property
    def active(self) -> bool:
        """Always: what is learned may change."""
        return True

    @property
    def layer(self) -> WeightNoiseSource:
        """The layer whose weights are drawn."""
        layer = self.source()
        assert layer is not None
        return layer

    def expected(self, x: tf.Tensor) -> tf.Tensor:
        """Calls the layer with the mean of its weights."""
        return self.layer.call_expected(x)

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Calls the layer with the weights that `words` encode.

        Args:
            x: Inputs [batch, ...], all with the same weights.
            words: uint32 tensor, a word for each weight.

        Returns:
            Outputs [batch, ...].
        """
        return self.layer.call_sampled(x, words)

    def describe(self) -> str:
        """Returns what is drawn."""
        return self.description
