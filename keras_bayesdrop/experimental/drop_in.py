# SPDX-License-Identifier: Apache-2.0
"""Dropout that sets units to one instead of zero."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.layers._random import uniform


@export("keras_bayesdrop.experimental.DropIn")
class DropIn(keras.layers.Layer):
    """Sets units to one with probability `rate`, in training.

        y = keep * x + (1 - keep),    keep ~ Bernoulli(1 - rate)

        E y   = (1 - rate) x + rate
        Var y = rate (1 - rate) (1 - x)^2

    Units that stay are not scaled. Outside of training the output is the
    mean.

    Standing: a counterexample. According to the reference it does not work,
    because it raises variances: dropout, `y = keep * x`, has the variance
    `rate (1 - rate) x^2`, which is least for a silent unit (`x = 0`), where
    this one has its most. Activities below one half, and so sparse ones,
    have more variance with this layer; activities between one half and one
    have less. Before a dense layer with a bias, and for activities in
    `[0, 1]`, it is dropout of `1 - x`: the difference lies in what the
    activities are, and where training begins.

    `predict_with_uncertainty` samples this layer, as in training.

    Args:
        rate: Float in `[0, 1]`. Probability of setting a unit to one.
        seed: Optional int. Makes the sequence of masks reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor of any rank, with activities in `[0, 1]`. Others are
            not refused.
        training: Bool or `None`. Whether to set units to one.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(256, activation="sigmoid"),
        keras_bayesdrop.experimental.DropIn(0.5),
        keras.layers.Dense(10),
    ])
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), section 11.6.
    """

    def __init__(
        self, rate: float, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rate = check_rate(rate)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Sets units to one in training; returns the mean elsewhere."""
        if not training:
            return (1.0 - self.rate) * inputs + self.rate
        # In low precision the rate would be rounded.
        wide = keras.backend.result_type(self.compute_dtype, "float32")
        sizes = keras.ops.shape(inputs)
        dropped = uniform(sizes, wide, self.seed_generator) < self.rate
        return keras.ops.where(dropped, keras.ops.ones_like(inputs), inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the inputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
