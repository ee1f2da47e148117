# SPDX-License-Identifier: Apache-2.0
"""Noise that a layer owns: the interface of the layer, and noise on weights.

The parameters of the noise are variables of the layer. A compiled prediction
reads them whenever it runs, so that nothing is compiled again after training.
"""

import abc
import dataclasses
import weakref
from typing import Any
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.noise.base import Noise


class NoiseSource(abc.ABC):
    """A layer that is one noise site, and describes its noise."""

    @abc.abstractmethod
    def noise_site(self) -> tuple[Noise, tuple[int | None, ...] | None]:
        """Returns the noise, and its shape with the batch axis.

        The shape is as in `keras.layers.Dropout`: 1 for an axis that shares
        its noise, `None` for an axis that does not. `None` in place of the
        tuple stands for the shape of the input, and is the value for noise on
        weights.
        """


class WeightNoiseSource(NoiseSource):
    """A layer with noise on its weights: one draw is one function.

    All methods take inputs as the layer's `call` does, and return outputs as
    it does, with the activation.
    """

    @property
    @abc.abstractmethod
    def weight_units(self) -> int:
        """Number of words for one draw of the weights."""

    @abc.abstractmethod
    def call_expected(self, x: tf.Tensor) -> tf.Tensor:
        """Calls the layer with the mean of its weights."""

    @abc.abstractmethod
    def call_sampled(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Calls the layer with one draw of its weights.

        Args:
            x: Inputs [batch, ...], all with the same draw.
            words: uint32 tensor [weight_units].

        Returns:
            Outputs [batch, ...].
        """

    def row_units(self, x: tf.Tensor) -> int | None:
        """Returns the number of words per row if each row has its own draw.

        If the outputs of a row are independent given its input, and their
        distribution is known, a layer can draw the outputs instead of the
        weights.

        Args:
            x: Inputs [rows, ...].

        Returns:
            `None` if the weights must be drawn for every row.
        """
        return None

    def call_rows(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Draws the outputs of every row and sample on their own.

        Args:
            x: Inputs [rows, samples or 1, ...].
            words: uint32 tensor [rows, samples, row_units].

        Returns:
            Outputs [rows, samples, ...].
        """
        raise NotImplementedError


class NoiseThenLayer(abc.ABC):
    """A layer that calls a noise layer, then another layer with its output.

    The layer does nothing else: for one input without further arguments it
    equals the sequence of the two layers.
    """

    @abc.abstractmethod
    def noise_then_layer(self) -> tuple[Any, Any]:
        """Returns both layers."""


@dataclasses.dataclass(frozen=True)
class WeightNoise(Noise):
    """Draws the weights of a layer, and calls the layer with them.

    Attributes:
        source: Weak reference to the layer. The noise keeps the compiled
            programs of a model alive, and must not keep the model alive.
        description: The distribution, for tables.
    """

    source: weakref.ref[WeightNoiseSource]
    description: str
    kind: ClassVar[str] = "weights"
    one_draw_per_loop: ClassVar[bool] = True

    @property
    def active(self) -> bool:
        """Always true, since training may change the distribution."""
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
        """Returns the description of the distribution."""
        return self.description
