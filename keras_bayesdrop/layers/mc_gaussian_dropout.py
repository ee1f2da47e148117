# SPDX-License-Identifier: Apache-2.0
"""Gaussian dropout that is also on at prediction."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.layers._dropout.noise import noise_sizes
from keras_bayesdrop.layers._dropout.noise import perturb


@export("keras_bayesdrop.layers.MCGaussianDropout")
class MCGaussianDropout(keras.layers.GaussianDropout):
    """Multiplicative Gaussian noise in training and at prediction.

    Every unit is multiplied by its own draw, of the mean and the variance
    that dropout of the same rate has:

        y = x * (1 + s * e),    e ~ N(0, 1),    s^2 = rate / (1 - rate)

    Use `MCDropout(rate, noise="gaussian", noise_shape=...)` to share the noise
    along an axis.

    Args:
        rate: Float in `[0, 1)`. Rate of the dropout with the same variance.
        seed: Optional int. Makes the sequence of draws reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor of any rank.
        training: Bool or `None`. Ignored: this layer always adds its noise.

    Example:
    ```python
    layer = keras_bayesdrop.layers.MCGaussianDropout(0.2)
    layer(keras.ops.ones((1, 3)))  # three draws from N(1, 0.25)
    ```

    References:
        - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html),
          section 10.
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557).
    """

    def __init__(
        self, rate: float, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(check_rate(rate, below_one=True), seed=seed, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies fresh noise to `inputs`, whatever `training` says."""
        if self.rate == 0:
            return inputs
        return perturb(
            inputs,
            self.rate,
            noise_sizes(inputs, None),
            self.seed_generator,
            self.compute_dtype,
        )
