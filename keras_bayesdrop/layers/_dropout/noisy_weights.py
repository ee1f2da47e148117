# SPDX-License-Identifier: Apache-2.0
"""Layers with multiplicative noise on every weight."""

import dataclasses
import math
import weakref
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.layers._dropout.noise import check_noise
from keras_bayesdrop.layers._dropout.noise import draw_factor
from keras_bayesdrop.layers._dropout.noise import noise_config
from keras_bayesdrop.layers._operations import KernelOperation
from keras_bayesdrop.layers._operations import operation_of
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise import WeightNoiseSource
from keras_bayesdrop.noise import get

# Least variance of an output: the gradient of its root must be finite.
_VARIANCE_FLOOR = 1e-20


@dataclasses.dataclass(frozen=True)
class DroppedWeights(WeightNoise):
    """Multiplies every weight of a layer by noise of its own."""

    @property
    def active(self) -> bool:
        """True if the noise of the layer varies."""
        layer: Any = self.layer
        return bool(layer.noise_family.active)


class NoisyWeightsLayer(WeightNoiseSource):
    """The front of a Keras layer whose weights are multiplied by noise.

    A class puts it before `keras.layers.Dense` or a convolution, and its
    `__init__` calls `_set_noise`.
    """

    # Of the Keras layer.
    kernel: Any
    compute_dtype: str

    def _set_noise(self, rate: Any, noise: Any, seed: int | None) -> None:
        """Checks and keeps the arguments; see `DropConnectDense` for them."""
        self.rate, self.noise = check_noise(rate, noise)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    @property
    def operation(self) -> KernelOperation:
        """The layer as a function of its kernel."""
        return operation_of(self)

    @property
    def noise_family(self) -> Multiplicative:
        """The noise that a weight is multiplied by."""
        return get(self.noise, self.rate)

    @property
    def weight_units(self) -> int:
        """The number of weights with noise: all of the kernel."""
        return math.prod(self.kernel.shape)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies the layer, in training with noise on its kernel."""
        noise = self.noise_family
        if not training or not noise.active:
            return self.call_expected(inputs)
        seed, wide = self.seed_generator, self.operation.wide
        if self._outputs_are_normal(inputs):
            sizes = (keras.ops.shape(inputs)[0], self.kernel.shape[-1])
            factor = draw_factor(noise, sizes, seed, wide)
            return self._call_normal(inputs, factor)
        shape = tuple(self.kernel.shape)
        return self._call_with(inputs, draw_factor(noise, shape, seed, wide))

    def call_expected(self, x: tf.Tensor) -> tf.Tensor:
        """Calls the layer without noise."""
        return self.operation.apply(x, self.kernel)

    def call_sampled(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Calls the layer with the kernel that words encode."""
        factor = self.noise_family.factor_from_words(words)
        factor = tf.cast(factor, self.operation.wide)
        return self._call_with(x, tf.reshape(factor, self.kernel.shape))

    def row_units(self, x: tf.Tensor) -> int | None:
        """Returns the number of outputs, if they can be drawn themselves."""
        normal = self._outputs_are_normal(x)
        return int(self.kernel.shape[-1]) if normal else None

    def call_rows(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Draws the outputs of every row and sample."""
        factor = self.noise_family.factor_from_words(words)
        return self._call_normal(x, tf.cast(factor, self.operation.wide))

    def noise_site(self) -> tuple[Noise, tuple[int | None, ...] | None]:
        """Returns the noise of predictions with uncertainty."""
        description = f"{self.noise_family.describe()}, on weights"
        return DroppedWeights(weakref.ref(self), description), None

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),  # type: ignore[misc]
            "rate": self.rate,
            "noise": noise_config(self.noise),
            "seed": self.seed,
        }

    def _outputs_are_normal(self, x: Any) -> bool:
        """Returns True if outputs are independent and Gaussian."""
        noise = self.noise_family
        normal = isinstance(noise, Gaussian) and noise.active
        return normal and self.operation.independent_outputs(x)

    def _call_with(self, x: Any, factor: Any) -> Any:
        """Calls the layer with its kernel times a factor for each weight."""
        operation = self.operation
        kernel = keras.ops.cast(self.kernel, operation.wide) * factor
        return operation.apply(x, kernel)

    def _call_normal(self, x: Any, factor: Any) -> Any:
        """Draws outputs; `factor` is one plus noise for each of them."""
        operation = self.operation
        cast, wide, narrow = keras.ops.cast, operation.wide, operation.dtype
        x, kernel = cast(x, narrow), cast(self.kernel, narrow)
        mean = cast(operation.linear(x, kernel), wide)
        squares = keras.ops.square(cast(x, wide))
        kernel = keras.ops.square(cast(kernel, wide))
        variance = operation.linear(squares, kernel)
        root = keras.ops.sqrt(keras.ops.maximum(variance, _VARIANCE_FLOOR))
        outputs = mean + root * (factor - 1.0)
        return operation.finish(cast(outputs, narrow))
