# SPDX-License-Identifier: Apache-2.0
"""What a layer offers that owns noise with parameters of its own.

The parameters are variables, read anew whenever a compiled prediction runs:
training goes on, and nothing has to be compiled again.
"""

import abc
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.base import Noise


class NoiseSource(abc.ABC):
    """A layer that is one noise site, and says itself which."""

    @abc.abstractmethod
    def noise_site(self) -> tuple[Noise, tuple[int | None, ...] | None]:
        """Returns the noise, and its shape with the batch axis.

        The shape is as in `keras.layers.Dropout`: 1 for an axis that shares
        its noise, `None` for one that does not; `None` alone for the shape of
        the input. Noise on weights has none.
        """


class WeightNoiseSource(NoiseSource):
    """A layer with noise on its weights: one draw is one function.

    All methods take inputs as the layer's `call` does, and return what it
    returns, the activation included.
    """

    @property
    @abc.abstractmethod
    def weight_units(self) -> int:
        """How many words a draw of the weights takes."""

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
        """Returns how many words a row takes if each has its own draw.

        Where the outputs of a row given its input are independent and of a
        known distribution, they can be drawn instead of the weights.

        Args:
            x: Inputs [rows, ...].

        Returns:
            `None` if the weights have to be drawn, row by row.
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
    """A layer that calls a noise layer, then another with its output.

    Not a word more: with one input and no arguments it is the two of them.
    """

    @abc.abstractmethod
    def noise_then_layer(self) -> tuple[Any, Any]:
        """Returns both layers."""
