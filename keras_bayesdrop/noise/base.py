# SPDX-License-Identifier: Apache-2.0
"""What every noise has in common: one counter word a unit, and what it does."""

import abc
from typing import ClassVar

import tensorflow as tf


class Noise(abc.ABC):
    """A distribution over perturbations of a tensor.

    Members are frozen dataclasses, so that two equal noises hash alike and a
    compiled prediction can be looked up by them.
    """

    kind: ClassVar[str]

    @property
    @abc.abstractmethod
    def active(self) -> bool:
        """Whether the noise can change its input at all."""

    @abc.abstractmethod
    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Perturbs `x` by the noise that `words` encode.

        Args:
            x: Floating tensor.
            words: uint32 tensor that broadcasts with `x`.

        Returns:
            Tensor of the dtype of `x` and the broadcast shape.
        """

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns the noise in a few characters, for tables."""
