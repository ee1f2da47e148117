# SPDX-License-Identifier: Apache-2.0
"""Dropout noise of a learned rate: smooth in training, hard in prediction."""

import math
import weakref
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.layers._dropout.noise import noise_sizes
from keras_bayesdrop.layers._random import uniform
from keras_bayesdrop.noise import Concrete
from keras_bayesdrop.noise import LearnedBernoulli
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import NoiseSource


class ConcreteNoise(keras.layers.Layer, NoiseSource):
    """The noise of `ConcreteDropout`, which documents it.

    In training

        y = x * (1 - z) / (1 - rate),    rate = sigmoid(logit)
        z = sigmoid((logit + log(u / (1 - u))) / temperature),    u ~ U(0, 1)

    and otherwise `y = x`. All of it is in float32 or better, the product
    with `x` included.

    Args:
        init_rate: Float in `(0, 1)`.
        temperature: Positive float.
        sampling: `"bernoulli"` or `"concrete"`: the noise of predictions with
            uncertainty.
        noise_shape: As in `keras.layers.Dropout`.
        regularizer: Called with the logit; its result is added to the loss.
        seed: Optional int.
        **kwargs: Passed to `keras.layers.Layer`.
    """

    def __init__(
        self,
        init_rate: float,
        *,
        temperature: float,
        sampling: str,
        noise_shape: tuple[int | None, ...] | None,
        regularizer: Any,
        seed: int | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_rate = init_rate
        self.temperature = temperature
        self.sampling = sampling
        self.noise_shape = noise_shape
        self.regularizer = regularizer
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Makes the logit."""
        rate = self.init_rate
        self.logit = self.add_weight(
            name="logit",
            shape=(),
            initializer=keras.initializers.Constant(
                math.log(rate) - math.log1p(-rate)
            ),
            dtype=keras.backend.result_type(self.variable_dtype, "float32"),
            autocast=False,
            regularizer=self.regularizer,
        )
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies the relaxed mask in training, and nothing otherwise."""
        if not training:
            return inputs
        wide = keras.backend.result_type(self.compute_dtype, "float32")
        sizes = noise_sizes(inputs, self.noise_shape)
        u = uniform(sizes, wide, self.seed_generator)
        logit = keras.ops.cast(self.logit, wide)
        # At u = 0 the logarithm is -inf, and the unit is kept whole.
        noise = logit + keras.ops.log(u / (1.0 - u))
        keep = keras.ops.sigmoid(noise * (-1.0 / self.temperature))
        scale = 1.0 + keras.ops.exp(logit)  # 1 / (1 - rate)
        scaled = keras.ops.cast(inputs, wide) * (keep * scale)
        return keras.ops.cast(scaled, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the input."""
        return input_shape

    def rate_tensor(self) -> tf.Tensor:
        """Returns the rate as it is when called, a float64 scalar."""
        return tf.sigmoid(tf.cast(self.logit.value, tf.float64))

    @property
    def rate(self) -> float:
        """The learned probability of dropping."""
        return float(self.rate_tensor()) if self.built else self.init_rate

    def noise_site(self) -> tuple[Noise, tuple[int | None, ...] | None]:
        """Returns the noise of predictions with uncertainty."""
        kind = LearnedBernoulli if self.sampling == "bernoulli" else Concrete
        return kind(weakref.ref(self)), self.noise_shape
