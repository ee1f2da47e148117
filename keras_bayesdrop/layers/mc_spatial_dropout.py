# SPDX-License-Identifier: Apache-2.0
"""Dropout of whole feature maps that is also on at prediction."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.layers._dropout.noise import apply_noise
from keras_bayesdrop.layers._dropout.noise import check_noise
from keras_bayesdrop.layers._dropout.noise import noise_config
from keras_bayesdrop.noise import Multiplicative

DATA_FORMATS = ("channels_first", "channels_last")


class _AlwaysDropsMaps(keras.layers.Layer):
    """The arguments, `call` and config of all layers, for Keras' layers."""

    def __init__(
        self,
        rate: float | None = None,
        *,
        seed: int | None = None,
        noise: str | Multiplicative = "bernoulli",
        **kwargs: Any,
    ) -> None:
        rate, noise = check_noise(rate, noise)
        # Keras asks for a rate, and makes no seed generator at rate 0.
        super().__init__(0.5 if rate is None else rate, seed=seed, **kwargs)
        self.rate = rate
        self.noise = noise

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Drops maps of `inputs`, whatever `training` says."""
        if self.rate == 0:
            return inputs
        last = getattr(self, "data_format", DATA_FORMATS[1]) == DATA_FORMATS[1]
        shape = keras.ops.shape(inputs)
        channels = len(shape) - 1 if last else 1
        sizes = [
            size if axis in (0, channels) else 1
            for axis, size in enumerate(shape)
        ]
        return apply_noise(
            inputs,
            rate=self.rate,
            noise=self.noise,
            sizes=sizes,
            seed=self.seed_generator,
            dtype=self.compute_dtype,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments.

        The base class writes the dtype of the variables, which would turn
        `"mixed_float16"` into `"float32"` in a saved model.
        """
        policy = keras.dtype_policies.serialize(self.dtype_policy)
        noise = noise_config(self.noise)
        return {**super().get_config(), "dtype": policy, "noise": noise}


class _AlwaysDropsGrids(_AlwaysDropsMaps):
    """The same for images and volumes, whose channels may come first."""

    def __init__(
        self,
        rate: float | None = None,
        *,
        data_format: str | None = None,
        seed: int | None = None,
        noise: str | Multiplicative = "bernoulli",
        **kwargs: Any,
    ) -> None:
        if data_format is not None:
            check_choice(data_format, "data_format", DATA_FORMATS)
        super().__init__(
            rate, data_format=data_format, seed=seed, noise=noise, **kwargs
        )


@export("keras_bayesdrop.layers.MCSpatialDropout1D")
class MCSpatialDropout1D(_AlwaysDropsMaps, keras.layers.SpatialDropout1D):
    """Drops whole channels of a sequence, in training and at prediction.

    One mask serves all time steps:

        y[b, t, c] = x[b, t, c] * keep[b, c] / (1 - rate)
        keep ~ Bernoulli(1 - rate)

    Args:
        rate: Float in `[0, 1]`. Probability of dropping a channel; `None` for
            noise that has no rate.
        seed: Optional int. Makes the sequence of masks reproducible.
        noise: As in `MCDropout`. Defaults to `"bernoulli"`.
        **kwargs: Passed to `keras.layers.SpatialDropout1D`: `name`, `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, time, channels)`.
        training: Bool or `None`. Ignored: this layer always drops.

    Example:
    ```python
    layer = keras_bayesdrop.layers.MCSpatialDropout1D(0.2)
    layer(keras.ops.ones((2, 100, 8)))  # a channel is all 0 or all 1.25
    ```

    References:
        - [Tompson et al., 2014](https://arxiv.org/abs/1411.4280).
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """


@export("keras_bayesdrop.layers.MCSpatialDropout2D")
class MCSpatialDropout2D(_AlwaysDropsGrids, keras.layers.SpatialDropout2D):
    """Drops whole feature maps of an image, in training and at prediction.

    One mask serves all pixels:

        y[b, i, j, c] = x[b, i, j, c] * keep[b, c] / (1 - rate)
        keep ~ Bernoulli(1 - rate)

    Args:
        rate: Float in `[0, 1]`. Probability of dropping a map; `None` for
            noise that has no rate.
        data_format: `"channels_last"` or `"channels_first"`. Defaults to
            `keras.config.image_data_format()`.
        seed: Optional int. Makes the sequence of masks reproducible.
        noise: As in `MCDropout`. Defaults to `"bernoulli"`.
        **kwargs: Passed to `keras.layers.SpatialDropout2D`: `name`, `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, rows, columns, channels)`, or
            `(batch, channels, rows, columns)` if channels are first.
        training: Bool or `None`. Ignored: this layer always drops.

    Example:
    ```python
    layer = keras_bayesdrop.layers.MCSpatialDropout2D(0.2)
    layer(keras.ops.ones((2, 28, 28, 8)))  # a map is all 0 or all 1.25
    ```

    References:
        - [Tompson et al., 2014](https://arxiv.org/abs/1411.4280).
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02158), for
          convolutional networks.
    """


@export("keras_bayesdrop.layers.MCSpatialDropout3D")
class MCSpatialDropout3D(_AlwaysDropsGrids, keras.layers.SpatialDropout3D):
    """Drops whole feature maps of a volume, in training and at prediction.

    One mask serves all voxels:

        y[b, i, j, k, c] = x[b, i, j, k, c] * keep[b, c] / (1 - rate)
        keep ~ Bernoulli(1 - rate)

    Args:
        rate: Float in `[0, 1]`. Probability of dropping a map; `None` for
            noise that has no rate.
        data_format: `"channels_last"` or `"channels_first"`. Defaults to
            `keras.config.image_data_format()`.
        seed: Optional int. Makes the sequence of masks reproducible.
        noise: As in `MCDropout`. Defaults to `"bernoulli"`.
        **kwargs: Passed to `keras.layers.SpatialDropout3D`: `name`, `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, depth, rows, columns, channels)`, or
            `(batch, channels, depth, rows, columns)` if channels are first.
        training: Bool or `None`. Ignored: this layer always drops.

    Example:
    ```python
    layer = keras_bayesdrop.layers.MCSpatialDropout3D(0.2)
    layer(keras.ops.ones((2, 9, 9, 9, 4)))  # a map is all 0 or all 1.25
    ```

    References:
        - [Tompson et al., 2014](https://arxiv.org/abs/1411.4280).
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02158), for
          convolutional networks.
    """
