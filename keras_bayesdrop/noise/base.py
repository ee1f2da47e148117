# SPDX-License-Identifier: Apache-2.0
"""What every noise has in common: one counter word a unit, and what it does."""

import abc
from typing import Any
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

    def expected(self, x: tf.Tensor) -> tf.Tensor:
        """Returns what becomes of `x` when the noise is off."""
        return x

    def op_settings(self) -> tuple[Any, Any] | None:
        """Returns threshold and scale for the compiled op.

        Returns:
            Both as numbers or as scalar tensors, or `None` if the op does not
            know the noise.
        """
        return None

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


def as_scalar(value: Any, dtype: Any) -> tf.Tensor:
    """Returns a number or a tensor in a dtype.

    `tf.cast` of a Python float would round to float32 on the way.
    """
    if isinstance(value, (int, float)):
        return tf.constant(value, dtype)
    return tf.cast(value, dtype)
