# SPDX-License-Identifier: Apache-2.0
"""Alpha dropout that is also on at prediction."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_noise_shape
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.layers._dropout.noise import noise_sizes


@export("keras_bayesdrop.layers.MCAlphaDropout")
class MCAlphaDropout(keras.layers.AlphaDropout):
    """Dropout for `selu` networks, in training and at prediction.

    A dropped unit takes the value at which `selu` saturates, and an affine map
    then restores mean zero and variance one:

        y = a * (x * keep + v * (1 - keep)) + b
        keep ~ Bernoulli(1 - rate),    v = -1.0507 * 1.6733 = -1.7581
        a = ((1 - rate) * (1 + rate * v^2))^(-1/2),    b = -a * v * rate

    Args:
        rate: Float in `[0, 1)`. Probability of dropping a unit. At one `a`
            would be infinite.
        noise_shape: Optional tuple with an entry for each axis of the inputs,
            the batch axis among them. An axis of size 1 shares its mask, and
            `None` stands for the size of the inputs.
        seed: Optional int. Makes the sequence of masks reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor of any rank.
        training: Bool or `None`. Ignored: this layer always drops.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(
            64, activation="selu", kernel_initializer="lecun_normal"
        ),
        keras_bayesdrop.layers.MCAlphaDropout(0.05),
        keras.layers.Dense(1),
    ])
    ```

    References:
        - [Klambauer et al., 2017](https://arxiv.org/abs/1706.02515).
    """

    def __init__(
        self,
        rate: float,
        *,
        noise_shape: Sequence[int | None] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            check_rate(rate, below_one=True),
            noise_shape=check_noise_shape(noise_shape),
            seed=seed,
            **kwargs,
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies a fresh mask to `inputs`, whatever `training` says."""
        noise_sizes(inputs, self.noise_shape)  # raises if it does not fit
        return super().call(inputs, training=True)
