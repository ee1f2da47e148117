# SPDX-License-Identifier: Apache-2.0
"""Automatic relevance and depth determination together."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.regularizers._structured import StructuredPenalty


@export("keras_bayesdrop.regularizers.ARDADD")
class ARDADD(StructuredPenalty):
    """A prior under which rows shrink together, and the kernel as a whole.

    Each row has a scale `xi[r]` and the kernel a scale `tau`:

        W[r, j] ~ N(0, sigma0^2 * xi[r]^2 * tau^2)
        xi[r] ~ row_prior,    tau ~ matrix_prior

    In a layer that the model needs, `xi` still shrinks single rows. The scales
    are at their joint optimum, which is computed for the weights of each step.
    Value, gradient and unit of the penalty are those of `ARD`, with
    `xi[r] * tau` for its `tau[r]`.

    Not all priors have a joint optimum: with `LogUniformScale` rows the density
    may grow without bound as `xi` shrinks and `tau` grows. Inverse gamma rows
    with an inverse gamma or half-Cauchy matrix have one; so have two
    half-Cauchy priors.

    Args:
        row_prior: Prior of the row scales: `"inverse_gamma"`,
            `"half_cauchy"`, `"log_uniform"`, or a
            `keras_bayesdrop.priors.ScalePrior`.
        matrix_prior: Prior of the scale of the kernel, likewise.
        num_train_examples: Positive int. Number of training examples.
        sigma0: Positive float. Unit of the scales. Defaults to `1.0`.
        axis: Int. Axis of the kernel with the input units, see `ARD`.
            Defaults to `-2`.
        epsilon: Positive float. Assumed standard deviation of each weight
            around its value, see `ARD`. Defaults to `1e-4`.
        likelihood: The likelihood that the model's loss stands for, see `ARD`.
            Defaults to `"nll"`.
        **kwargs: Must be empty. An older spelling of `likelihood` raises an
            error with the new one.

    Raises:
        BayesdropError: If the scales have no joint optimum. If that depends
            on the number of rows, the error comes when the kernel is created.

    Example:
    ```python
    prior = keras_bayesdrop.regularizers.ARDADD(
        "inverse_gamma", "inverse_gamma", num_train_examples=len(x)
    )
    inner = keras.layers.Dense(50, "relu", kernel_regularizer=prior)
    outputs = keras.layers.Add()([hidden, inner(hidden)])
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """

    structure = "ard_add"

    def __init__(
        self,
        row_prior: Any,
        matrix_prior: Any,
        num_train_examples: int,
        sigma0: float = 1.0,
        axis: int = -2,
        epsilon: float = 1e-4,
        likelihood: Any = "nll",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            row_prior=row_prior,
            matrix_prior=matrix_prior,
            axis=axis,
            num_train_examples=num_train_examples,
            sigma0=sigma0,
            epsilon=epsilon,
            likelihood=likelihood,
            **kwargs,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "row_prior": serialize(self.row_prior),
            "matrix_prior": serialize(self.matrix_prior),
            "axis": self.axis,
        }
