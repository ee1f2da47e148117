# SPDX-License-Identifier: Apache-2.0
"""The base class of noise: one counter word per unit, and its effect."""

import abc
from typing import Any
from typing import ClassVar
from typing import NamedTuple

import tensorflow as tf


class OpEffect(NamedTuple):
    """The settings of `KerasBayesdrop>Noise`, whose documentation has them.

    Attributes:
        effect: Name of the effect.
        threshold: Of words, a number or a scalar tensor.
        parameters: The numbers `a`, `b` and `c`, or scalar tensors.
    """

    effect: str
    threshold: Any
    parameters: tuple[Any, Any, Any]


class Noise(abc.ABC):
    """A distribution over perturbations of a tensor.

    Subclasses are frozen dataclasses: equal noises have equal hashes, and are
    keys of the cache of compiled predictions.
    """

    kind: ClassVar[str]
    # Whether one draw serves all steps of a loop over time.
    one_draw_per_loop: ClassVar[bool] = False
    # Whether the compiled noise op has an effect for it.
    has_op_effect: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def active(self) -> bool:
        """True if the noise can change its input."""

    def expected(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the value of `x` without noise."""
        return x

    @property
    def period(self) -> int | None:
        """The number of samples after which they repeat, if they do."""
        return None

    def op_settings(self) -> tuple[Any, Any] | None:
        """Returns threshold and scale for the compiled op.

        Returns:
            Both as numbers or as scalar tensors, or `None` if the op does not
            support the noise.
        """
        return None

    def op_effect(self) -> "OpEffect | None":
        """Returns what the compiled noise op does with a word.

        Returns:
            `None` if the op does not support the noise, or not with these
            parameters.
        """
        return None

    def op_table(self) -> tf.Tensor | None:
        """Returns the masks for the compiled op, if they are not random.

        Returns:
            uint8 tensor [masks, units], or `None` if masks are made of words.
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
        """Returns a short description, for tables."""


def as_scalar(value: Any, dtype: Any) -> tf.Tensor:
    """Returns a number or a tensor in a dtype.

    `tf.cast` of a Python float would round to float32 on the way.
    """
    if isinstance(value, (int, float)):
        return tf.constant(value, dtype)
    return tf.cast(value, dtype)
