# SPDX-License-Identifier: Apache-2.0
"""Noise whose strength is a variable of a layer."""

import dataclasses
import weakref
from typing import Any
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.base import OpEffect
from keras_bayesdrop.noise.bernoulli import drop
from keras_bayesdrop.noise.bernoulli import mask_effect
from keras_bayesdrop.noise.gaussian import factor_effect
from keras_bayesdrop.noise.gaussian import perturb
from keras_bayesdrop.random.philox import rate_tensor_to_threshold
from keras_bayesdrop.random.philox import words_to_uniform


@dataclasses.dataclass(frozen=True)
class _Learned(Noise):
    """Noise of a layer; equal to other noise of the same layer.

    Attributes:
        source: Weak reference to the layer. The noise keeps the compiled
            programs of a model alive, and must not keep the model alive.
    """

    source: weakref.ref[Any]

    @property
    def active(self) -> bool:
        """Always true, since training may change the strength."""
        return True


@dataclasses.dataclass(frozen=True)
class LearnedBernoulli(_Learned):
    """Dropout with the rate that a layer has learned.

        y = x * keep / (1 - rate),    keep ~ Bernoulli(1 - rate)

    The layer has `rate_tensor()`, a scalar float64 tensor.
    """

    kind: ClassVar[str] = "bernoulli"
    has_op_effect: ClassVar[bool] = True

    def op_settings(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the threshold and the scale at the time of the call."""
        rate = self.source().rate_tensor()  # type: ignore[union-attr]
        return rate_tensor_to_threshold(rate), 1.0 / (1.0 - rate)

    def op_effect(self) -> OpEffect:
        """Returns a mask with the rate at the time of the call."""
        return mask_effect(*self.op_settings())

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `keep / (1 - rate)`."""
        return drop(x, words, *self.op_settings())

    def describe(self) -> str:
        """Returns the family and its current rate."""
        rate = float(self.source().rate)  # type: ignore[union-attr]
        return f"Bernoulli, learned rate {rate:.3g}"


@dataclasses.dataclass(frozen=True)
class Concrete(_Learned):
    """A smooth relaxation of dropout, with the rate that a layer has learned.

        y = x * (1 - z) / (1 - rate)
        z = sigmoid((logit(rate) + logit(u)) / temperature),    u ~ U(0, 1)

    The layer has `rate_tensor()`, a scalar float64 tensor, and `temperature`.
    """

    kind: ClassVar[str] = "concrete"

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `(1 - z) / (1 - rate)`."""
        layer: Any = self.source()
        rate = layer.rate_tensor()
        uniform = words_to_uniform(words)
        logits = _logit(rate) + _logit(uniform)
        keep = tf.sigmoid(-logits / layer.temperature) / (1.0 - rate)
        return x * tf.cast(keep, x.dtype)

    def describe(self) -> str:
        """Returns the family and its current rate."""
        rate = float(self.source().rate)  # type: ignore[union-attr]
        return f"concrete, learned rate {rate:.3g}"


@dataclasses.dataclass(frozen=True)
class LearnedGaussian(_Learned):
    """Multiplicative Gaussian noise with a variance that a layer has learned.

        y = x * (1 + sqrt(alpha) * z),    z ~ N(0, 1)

    The layer has `noise_stddev()`, a tensor that broadcasts with the input:
    a scalar, or a value for each unit of the last axis.
    """

    kind: ClassVar[str] = "gaussian"
    has_op_effect: ClassVar[bool] = True

    def op_settings(self) -> tuple[Any, Any] | None:
        """Returns 0 and the standard deviation, if that is a scalar."""
        stddev = self.stddev()
        return (0, stddev) if stddev.shape.rank == 0 else None

    def op_effect(self) -> OpEffect | None:
        """Returns a Gaussian factor, if all units have one variance."""
        stddev = self.stddev()
        return factor_effect(stddev) if stddev.shape.rank == 0 else None

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `1 + sqrt(alpha) * z`."""
        return perturb(x, words, self.stddev())

    def describe(self) -> str:
        """Returns the family and its current mean variance."""
        alpha = float(tf.reduce_mean(tf.square(self.stddev())))
        return f"Gaussian, learned alpha {alpha:.3g}"

    def stddev(self) -> tf.Tensor:
        """Returns the standard deviation of the factor."""
        return tf.convert_to_tensor(self.source().noise_stddev())  # type: ignore[union-attr]


def _logit(probability: tf.Tensor) -> tf.Tensor:
    return tf.math.log(probability) - tf.math.log1p(-probability)
