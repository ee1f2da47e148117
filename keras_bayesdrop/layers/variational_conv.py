# SPDX-License-Identifier: Apache-2.0
"""Convolutions with learned Gaussian noise on their weights."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.layers._gaussian.estimators import estimator_for
from keras_bayesdrop.layers._gaussian.kernel_noise import KernelNoise
from keras_bayesdrop.layers._gaussian.layer import VariationalLayer
from keras_bayesdrop.layers._gaussian.weightwise_prior import WeightwisePrior
from keras_bayesdrop.losses.likelihood import refuse_loss_keywords


class _VariationalConv(VariationalLayer):
    """The constructor of both convolutions, for Keras' convolutions."""

    # Of the Keras layer.
    groups: int

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        num_train_examples: int,
        *,
        parametrization: str = "additive",
        prior: Any = "gaussian",
        kl: str | None = None,
        alpha: str | None = None,
        log_alpha_limit: float | None = None,
        train_threshold: float | None = None,
        noise_initializer: Any = None,
        likelihood: Any = "nll",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_loss_keywords(kwargs)
        super().__init__(filters, kernel_size, **kwargs)  # type: ignore[call-arg]
        self._compose(
            num_train_examples,
            likelihood,
            noise=KernelNoise(parametrization, alpha, noise_initializer),
            prior=WeightwisePrior(prior, kl, log_alpha_limit),
            sampler=estimator_for(parametrization, train_threshold),
            seed=seed,
        )
        if parametrization == "correlated" and self.groups > 1:
            raise invalid(
                "groups", self.groups, "1 with parametrization='correlated'"
            )


@export("keras_bayesdrop.layers.VariationalConv1D")
class VariationalConv1D(_VariationalConv, keras.layers.Conv1D):
    """A `Conv1D` layer whose weights are Gaussian, with learned variances.

    See `VariationalConv2D`, which is the same in two dimensions. Padding may
    be `"causal"`.

    Args:
        filters: Positive int. Number of output channels.
        kernel_size: Int or tuple of one int. Width of the window.
        num_train_examples: Positive int. Number of training examples.
        parametrization: As in `VariationalDense`.
        prior: As in `VariationalDense`.
        kl: As in `VariationalDense`.
        alpha: As in `VariationalDense`.
        log_alpha_limit: As in `VariationalDense`.
        train_threshold: As in `VariationalDense`.
        noise_initializer: As in `VariationalDense`.
        likelihood: As in `VariationalDense`.
        seed: As in `VariationalDense`.
        **kwargs: Passed to `keras.layers.Conv1D`, e.g. `strides`, `padding`,
            `dilation_rate`, `groups`, `activation` and `use_bias`.

    Call arguments:
        inputs: Tensor of rank 3.
        training: Bool or `None`. Whether to draw the outputs.

    Example:
    ```python
    layer = keras_bayesdrop.layers.VariationalConv1D(
        32, 5, num_train_examples=len(x), padding="causal", activation="relu"
    )
    ```

    References:
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369).
    """

    plain_class = keras.layers.Conv1D


@export("keras_bayesdrop.layers.VariationalConv2D")
class VariationalConv2D(_VariationalConv, keras.layers.Conv2D):
    """A `Conv2D` layer whose weights are Gaussian, with learned variances.

        y = activation(conv(x, w) + bias),    w = theta + sigma * e

    In training every output is drawn by itself:

        y ~ N(conv(x, theta), conv(x^2, sigma^2))

    Outputs at different positions share their weights, and so would not be
    independent if the weights were drawn: mean and variance of each output are
    right, the covariances are left out (Molchanov et al., 2017, do the same).
    `predict_with_uncertainty` draws the weights, and is exact.

    Everything else is as in `VariationalDense`. A row is an input channel of
    the kernel. With `parametrization="correlated"` an example has one factor
    for each channel at all positions.

    Args:
        filters: Positive int. Number of output channels.
        kernel_size: Int or tuple of two ints. Size of the window.
        num_train_examples: Positive int. Number of training examples.
        parametrization: As in `VariationalDense`.
        prior: As in `VariationalDense`.
        kl: As in `VariationalDense`.
        alpha: As in `VariationalDense`.
        log_alpha_limit: As in `VariationalDense`.
        train_threshold: As in `VariationalDense`.
        noise_initializer: As in `VariationalDense`.
        likelihood: As in `VariationalDense`.
        seed: As in `VariationalDense`.
        **kwargs: Passed to `keras.layers.Conv2D`, e.g. `strides`, `padding`,
            `dilation_rate`, `groups`, `activation` and `use_bias`.

    Call arguments:
        inputs: Tensor of rank 4.
        training: Bool or `None`. Whether to draw the outputs.

    Example:
    ```python
    layer = keras_bayesdrop.layers.VariationalConv2D(
        20, 5, num_train_examples=len(x), activation="relu"
    )
    ```

    References:
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369).
    """

    plain_class = keras.layers.Conv2D
