# SPDX-License-Identifier: Apache-2.0
"""A convolution with a Gaussian posterior and a structured prior."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.layers._gaussian.estimators import get_estimator
from keras_bayesdrop.layers._gaussian.layer import StructuredLayer
from keras_bayesdrop.layers._gaussian.structured_prior import StructuredPrior
from keras_bayesdrop.losses.likelihood import refuse_loss_keywords


@export("keras_bayesdrop.layers.BayesianConv2D")
class BayesianConv2D(StructuredLayer, keras.layers.Conv2D):
    """A `Conv2D` layer with Gaussian weights, whose prior learns its scales.

        y = activation(conv(x, w) + bias)
        posterior    w[a, b, r, j] ~ N(theta[a, b, r, j], sigma[a, b, r, j]^2)
        prior        w[a, b, r, j] ~ N(0, sigma0^2 * xi[r]^2 * tau^2)

    A row is an input channel: its weights to all filters, at all places of the
    window, have one scale `xi[r]`. With `groups` they are those to the filters
    of its group.

    With `estimator="flipout"` an example has one draw of the weights at all
    positions. `"local"` draws every output by itself: mean and variance of
    each are right, the covariances of outputs at different positions are left
    out. `predict_with_uncertainty` draws the weights, and is exact.

    Everything else is as in `BayesianDense`.

    Args:
        filters: Positive int. Number of output channels.
        kernel_size: Int or tuple of two ints. Size of the window.
        num_train_examples: Positive int. Number of training examples.
        structure: As in `BayesianDense`.
        scale_prior: As in `BayesianDense`.
        sigma0: As in `BayesianDense`.
        estimator: As in `BayesianDense`.
        scales: As in `BayesianDense`.
        noise_initializer: As in `BayesianDense`.
        likelihood: As in `BayesianDense`.
        seed: As in `BayesianDense`.
        **kwargs: Passed to `keras.layers.Conv2D`, e.g. `strides`, `padding`,
            `dilation_rate`, `groups`, `activation` and `use_bias`.

    Call arguments:
        inputs: Tensor of rank 4.
        training: Bool or `None`. Whether to add the noise.

    Raises:
        BayesdropError: As in `BayesianDense`.

    Example:
    ```python
    layer = keras_bayesdrop.layers.BayesianConv2D(
        20, 5, num_train_examples=len(x), activation="relu"
    )
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
        - [Wen et al., 2018](https://arxiv.org/abs/1803.04386), flipout.
    """

    plain_class = keras.layers.Conv2D

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        num_train_examples: int,
        *,
        structure: str | None = "ard",
        scale_prior: Any = None,
        sigma0: float = 1.0,
        estimator: str = "flipout",
        scales: str = "inline",
        noise_initializer: Any = None,
        likelihood: Any = "nll",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_loss_keywords(kwargs)
        super().__init__(filters, kernel_size, **kwargs)
        self._compose(
            num_train_examples,
            likelihood,
            noise=self._structured_noise(noise_initializer),
            prior=StructuredPrior(structure, scale_prior, sigma0, scales),
            sampler=get_estimator(estimator),
            seed=seed,
        )
