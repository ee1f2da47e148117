# SPDX-License-Identifier: Apache-2.0
"""Dropout that is also on at prediction, with noise of any family."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_noise_shape
from keras_bayesdrop.layers._dropout.noise import apply_noise
from keras_bayesdrop.layers._dropout.noise import check_noise
from keras_bayesdrop.layers._dropout.noise import noise_config
from keras_bayesdrop.layers._dropout.noise import noise_sizes
from keras_bayesdrop.noise import Multiplicative


@export("keras_bayesdrop.layers.MCDropout")
class MCDropout(keras.layers.Dropout):
    """Dropout in training and at prediction: a draw from the posterior.

    With `noise="bernoulli"` a unit is zero with probability `rate`:

        y = x * keep / (1 - rate),    keep ~ Bernoulli(1 - rate)

    With `noise="gaussian"` it is multiplied by noise of the same mean and the
    same variance:

        y = x * (1 + s * e),    e ~ N(0, 1),    s^2 = rate / (1 - rate)

    Any other family of `keras_bayesdrop.noise` is scaled to mean one:

        y = x * xi / E[xi]

    By name it has the parameters below, and no rate. Its strength is that of
    dropout of the rate beside it, which has the same `Var[xi] / E[xi]^2`.

        "rayleigh"          Rayleigh()                          0.21
        "inverse_nakagami"  InverseNakagami(3, 3)               0.12
        "half_cauchy"       HalfCauchy(), divided by its median  -
        "beta"              Beta(0.5, 0.5)                      0.33
        "uniform"           Uniform(0, 1)                       0.25
        "log_normal"        LogNormal(0, 0.5)                   0.22

    The layer decides inside `call`, whatever `training` says, so that `fit`,
    `predict`, `evaluate` and a plain call of the model all drop, and layers
    such as `BatchNormalization` beside it stay in inference mode. The mean of
    many predictions estimates the predictive mean (Gal and Ghahramani, 2016).

    Noise is drawn and applied in float32 or better, and the result is cast to
    the layer's compute dtype. (`keras.layers.Dropout` draws in the compute
    dtype: at rate 0.01 it drops 1.6% of the units in `bfloat16`.) In float32
    the masks are those of `keras.layers.Dropout` with the same seed.

    Args:
        rate: Float in `[0, 1]`. Probability of dropping a unit, not of keeping
            it. Must be below one for Gaussian noise, and `None` for noise
            that has no rate.
        noise: Name of a family, or an instance such as
            `keras_bayesdrop.noise.Beta(2.0, 1.0)`. Defaults to `"bernoulli"`.
        noise_shape: Optional tuple with an entry for each axis of the inputs,
            the batch axis among them. An axis of size 1 shares its noise, and
            `None` stands for the size of the inputs. With
            `noise_shape=(None, 1, None)` all time steps of a
            `(batch, time, features)` input get the same noise.
        seed: Optional int. Makes the sequence of masks reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor of any rank.
        training: Bool or `None`. Ignored: this layer always drops.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(256, activation="relu"),
        keras_bayesdrop.layers.MCDropout(0.1),
        keras.layers.Dense(1),
    ])
    draws = [model.predict(x) for _ in range(20)]  # all different
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
        - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html),
          section 10, for the Gaussian noise.
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045), for the
          prior that each family induces on the weights.
    """

    def __init__(
        self,
        rate: float | None = None,
        *,
        noise: str | Multiplicative = "bernoulli",
        noise_shape: Sequence[int | None] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        rate, noise = check_noise(rate, noise)
        super().__init__(
            # Keras asks for a rate, and makes no seed generator at rate 0.
            0.5 if rate is None else rate,
            noise_shape=check_noise_shape(noise_shape),
            seed=seed,
            **kwargs,
        )
        self.rate = rate
        self.noise = noise

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies fresh noise to `inputs`, whatever `training` says."""
        if self.rate == 0:
            return inputs
        return apply_noise(
            inputs,
            rate=self.rate,
            noise=self.noise,
            sizes=noise_sizes(inputs, self.noise_shape),
            seed=self.seed_generator,
            dtype=self.compute_dtype,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "noise": noise_config(self.noise)}
