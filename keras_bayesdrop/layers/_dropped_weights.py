# SPDX-License-Identifier: Apache-2.0
"""What layers with noise on every weight share."""

import dataclasses
import math
import weakref
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.layers._noise_argument import check_noise
from keras_bayesdrop.layers._noise_argument import draw_factor
from keras_bayesdrop.layers._noise_argument import noise_config
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise import WeightNoiseSource
from keras_bayesdrop.noise import get


@dataclasses.dataclass(frozen=True)
class DroppedWeights(WeightNoise):
    """Multiplies every weight of a layer by noise of its own."""

    @property
    def active(self) -> bool:
        """Whether the noise of the layer varies."""
        layer: Any = self.layer
        return bool(layer.noise_family.active)


class NoisyKernel(WeightNoiseSource):
    """Mixin of a layer of Keras that has a `kernel` and a `bias`.

    The class says how a kernel is applied (`_linear`) and where the bias goes
    (`_bias_shape`). It calls `_init_noise` in its `__init__`.
    """

    kernel: Any
    bias: Any
    activation: Any
    compute_dtype: str

    def _init_noise(self, rate: Any, noise: Any, seed: int | None) -> None:
        self.rate, self.noise = check_noise(rate, noise)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def _linear(self, x: Any, kernel: Any) -> Any:
        raise NotImplementedError

    def _bias_shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def noise_family(self) -> Multiplicative:
        """The noise that a weight is multiplied by."""
        return get(self.noise, self.rate)

    @property
    def weight_units(self) -> int:
        """How many weights have noise: all of the kernel."""
        return math.prod(self.kernel.shape)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies the layer, in training with noise on its kernel."""
        noise = self.noise_family
        if not training or not noise.active:
            return self._finish(self._linear(inputs, self.kernel))
        return self._call_noisy(inputs, noise)

    def _call_noisy(self, inputs: Any, noise: Multiplicative) -> Any:
        """Draws the kernel once, and applies it to the batch."""
        shape = tuple(self.kernel.shape)
        factor = draw_factor(noise, shape, self.seed_generator, self._wide)
        return self._call_with(inputs, factor)

    def call_expected(self, x: tf.Tensor) -> tf.Tensor:
        """Calls the layer without noise."""
        kernel = keras.ops.cast(self.kernel, self.compute_dtype)
        x = keras.ops.cast(x, self.compute_dtype)
        return self._finish(self._linear(x, kernel))

    def call_sampled(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Calls the layer with the kernel that words encode."""
        factor = tf.cast(self.noise_family.factor_from_words(words), self._wide)
        x = keras.ops.cast(x, self.compute_dtype)
        return self._call_with(x, tf.reshape(factor, self.kernel.shape))

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

    @property
    def _wide(self) -> str:
        """The dtype of noise: float32 or better."""
        return str(keras.backend.result_type(self.compute_dtype, "float32"))

    def _call_with(self, x: Any, factor: Any) -> Any:
        """Calls the layer with its kernel times a factor for each weight."""
        kernel = keras.ops.cast(self.kernel, self._wide) * factor
        kernel = keras.ops.cast(kernel, self.compute_dtype)
        return self._finish(self._linear(x, kernel))

    def _finish(self, outputs: Any) -> Any:
        """Adds the bias and applies the activation."""
        if self.bias is not None:
            bias = keras.ops.cast(self.bias, outputs.dtype)
            outputs = outputs + keras.ops.reshape(bias, self._bias_shape())
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs
