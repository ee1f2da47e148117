# SPDX-License-Identifier: Apache-2.0
"""Automatic relevance determination: shrinks inputs that are not needed."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.regularizers._structured import StructuredPenalty


@export("keras_bayesdrop.regularizers.ARD")
class ARD(StructuredPenalty):
    """A prior under which the weights of an input unit shrink together.

    Each row of the kernel, that is each input unit or input channel, has a
    scale `tau[r]` with a prior of its own:

        W[r, j] ~ N(0, sigma0^2 * tau[r]^2),    tau[r] ~ prior

    Multiplicative noise on the inputs, such as dropout, puts this prior on the
    weights. The penalty is minus its log-density at the scales that maximise
    it, which have a closed form:

        nats = sum{ 1/2 * log(2 pi sigma0^2 tau[r]^2)
                    + (W[r, j]^2 + epsilon^2) / (2 * sigma0^2 * tau[r]^2) }
               - sum{ log p(tau[r]) }
        penalty = c / (N * D) * nats

    for `N` training examples, `D` outputs, and `c` by the loss that the model
    is compiled with: 1 for a log-likelihood in nats such as cross-entropy,
    and `2 / tau` for a mean squared error with observation noise of precision
    `tau`. The gradient is that of a weight decay which differs from row to
    row, and follows the weights:

        gradient = c / (N * D) * W[r, j] / (sigma0^2 * tau[r]^2)

    The inverse gamma prior shrinks rows, more for a smaller `b`, and removes
    none. The half-Cauchy and log-uniform priors draw rows of little use to
    zero, with a gradient that grows as `1 / |W|`: use an optimizer that bounds
    its steps, such as Adam, or clip gradients.

    Args:
        prior: Prior of the scales: `"inverse_gamma"`, `"half_cauchy"`,
            `"log_uniform"`, or a `keras_bayesdrop.priors.ScalePrior`.
        num_train_examples: Positive int. Number of training examples `N`.
        sigma0: Positive float. Unit of the scales. Defaults to `1.0`.
        axis: Int. Axis of the kernel with the input units. Defaults to `-2`,
            the axis in `Dense`, `Embedding`, recurrent layers, `Conv` and
            `DepthwiseConv`. It is `-1` for `Conv2DTranspose`, and `0` for the
            query, key and value kernels of `MultiHeadAttention`. With
            `groups`, channels at the same place of their group are one row.
        epsilon: Positive float, at least 1e-12. Assumed standard deviation of
            each weight around its value. It keeps scales above 0, and matters
            only for rows whose weights are about as small. Defaults to `1e-4`.
        likelihood: The likelihood that the model's loss stands for: `"nll"`
            for a negative log-likelihood in nats, such as cross-entropy,
            `keras_bayesdrop.losses.GaussianLikelihood(noise_precision)` for a
            squared error, or another `keras_bayesdrop.losses.Likelihood`.
            Defaults to `"nll"`.
        **kwargs: Must be empty. An older spelling of `likelihood` raises an
            error with the new one.

    Example:
    ```python
    prior = keras_bayesdrop.regularizers.ARD("half_cauchy", len(x))
    first = keras.layers.Dense(50, "relu", kernel_regularizer=prior)
    model = keras.Sequential([first, keras.layers.Dense(10, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y)
    prior.scales(first.kernel).rows  # relevance of each feature of x
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """

    structure = "ard"

    def __init__(
        self,
        prior: Any,
        num_train_examples: int,
        sigma0: float = 1.0,
        axis: int = -2,
        epsilon: float = 1e-4,
        likelihood: Any = "nll",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            row_prior=prior,
            matrix_prior=None,
            axis=axis,
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
            "prior": keras.saving.serialize_keras_object(self.row_prior),
            "axis": self.axis,
        }
