# SPDX-License-Identifier: Apache-2.0
"""Automatic depth determination: shrinks layers that are not needed."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.regularizers._structured import StructuredPenalty


@export("keras_bayesdrop.regularizers.ADD")
class ADD(StructuredPenalty):
    """A prior under which all weights of a kernel shrink together.

    The kernel has one scale `tau`, with a prior of its own:

        W[r, j] ~ N(0, sigma0^2 * tau^2),    tau ~ prior

    It is meant for kernels inside residual connections, which a model can
    work without. Value, gradient and unit of the penalty are those of `ARD`,
    with all weights in one group.

    Args:
        prior: Prior of the scale: `"inverse_gamma"`, `"half_cauchy"`,
            `"log_uniform"`, or a `keras_bayesdrop.priors.ScalePrior`.
        num_train_examples: Positive int. Number of training examples.
        sigma0: Positive float. Unit of the scale. Defaults to `1.0`.
        epsilon: Positive float. Assumed standard deviation of each weight
            around its value, see `ARD`. Defaults to `1e-4`.
        likelihood: The likelihood that the model's loss stands for, see `ARD`.
            Defaults to `"nll"`.
        **kwargs: Must be empty. An older spelling of `likelihood` raises an
            error with the new one.

    Example:
    ```python
    prior = keras_bayesdrop.regularizers.ADD("half_cauchy", len(x))
    inner = keras.layers.Dense(50, "relu", kernel_regularizer=prior)
    outputs = keras.layers.Add()([hidden, inner(hidden)])
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """

    structure = "add"

    def __init__(
        self,
        prior: Any,
        num_train_examples: int,
        sigma0: float = 1.0,
        epsilon: float = 1e-4,
        likelihood: Any = "nll",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            row_prior=None,
            matrix_prior=prior,
            axis=None,
            num_train_examples=num_train_examples,
            sigma0=sigma0,
            epsilon=epsilon,
            likelihood=likelihood,
            **kwargs,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "prior": keras.saving.serialize_keras_object(self.matrix_prior),
        }
