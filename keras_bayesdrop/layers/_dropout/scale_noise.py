# SPDX-License-Identifier: Apache-2.0
"""Noise that multiplies all of an example by one number."""

from typing import Any

import keras

from keras_bayesdrop.layers._dropout.noise import apply_noise
from keras_bayesdrop.layers._dropout.noise import check_noise
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import NoiseSource
from keras_bayesdrop.noise import get


class ScaleNoise(keras.layers.Layer, NoiseSource):
    """The noise of `ADDResidual`, which documents it.

    In training

        y[n] = x[n] * tau[n] / c,    tau[n] ~ noise,    c = normalizer

    and otherwise `y = x`. It is drawn in float32 or better.

    Args:
        rate: Float, or `None` for noise without a rate.
        noise: Name, instance or config of a family.
        seed: Optional int.
        **kwargs: Passed to `keras.layers.Layer`.
    """

    def __init__(
        self, rate: Any, noise: Any, *, seed: int | None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rate, self.noise = check_noise(rate, noise)
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Takes note of the rank of the inputs."""
        self._ones = (1,) * (len(input_shape) - 1)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Multiplies each example by its own draw, in training."""
        if not training or self.rate == 0:
            return inputs
        return apply_noise(
            inputs,
            rate=self.rate,
            noise=self.noise,
            sizes=(keras.ops.shape(inputs)[0], *self._ones),
            seed=self.seed_generator,
            dtype=self.compute_dtype,
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the input."""
        return input_shape

    def noise_site(self) -> tuple[Noise, tuple[int | None, ...] | None]:
        """Returns the noise of predictions with uncertainty."""
        return get(self.noise, self.rate), (None, *self._ones)
