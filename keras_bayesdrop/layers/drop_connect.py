# SPDX-License-Identifier: Apache-2.0
"""Layers with multiplicative noise on every weight."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.layers._dropout.noisy_weights import NoisyWeightsLayer
from keras_bayesdrop.noise import Multiplicative


@export("keras_bayesdrop.layers.DropConnectDense")
class DropConnectDense(NoisyWeightsLayer, keras.layers.Dense):
    """A dense layer whose weights are dropped, each by itself.

        y = activation(x (W * M) + b)
        M[i, j] = keep / (1 - rate),    keep ~ Bernoulli(1 - rate)

    Dropout multiplies a whole row of `W` by the same number, which ties its
    weights together (automatic relevance determination); here they are
    independent. With other noise, `M` is that noise scaled to mean one, as in
    `MCDropout`. The bias has none.

    The noise is on in training, and in `predict_with_uncertainty`. Elsewhere
    (`predict`, `evaluate`, a plain call) it is off, as in
    `keras.layers.Dropout`, and the layer is a `keras.layers.Dense`.

    In training one draw of `M` serves the batch: one for every example, as in
    the paper, would take `batch * inputs * units` numbers. With Gaussian
    noise and inputs of rank 2 every example does have its own, since its
    outputs can be drawn instead of the weights:

        y[j] ~ N(sum{ x[i] W[i, j] : i }, s^2 sum{ x[i]^2 W[i, j]^2 : i })
        s^2 = rate / (1 - rate)

    `predict_with_uncertainty` draws `M` once a sample with shared masks, and
    once a sample and example with independent ones.

    Args:
        units: Positive int. Number of outputs.
        rate: Float in `[0, 1]`. Probability of dropping a weight. `None` for
            noise that has no rate.
        noise: Name of a family or an instance, as in `MCDropout`. Defaults to
            `"bernoulli"`.
        seed: Optional int. Makes the noise of training reproducible.
        **kwargs: Passed to `keras.layers.Dense`, e.g. `activation`.

    Call arguments:
        inputs: Tensor of rank 2 or more.
        training: Bool or `None`. Whether to apply noise.

    Example:
    ```python
    model = keras.Sequential([
        keras_bayesdrop.layers.DropConnectDense(256, 0.5, activation="relu"),
        keras_bayesdrop.layers.DropConnectDense(10, 0.5),
    ])
    ```

    References:
        - [Wan et al., 2013](https://proceedings.mlr.press/v28/wan13.html).
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          section 3.5.
    """

    def __init__(
        self,
        units: int,
        rate: float | None = None,
        *,
        noise: str | Multiplicative = "bernoulli",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self._set_noise(rate, noise, seed)


@export("keras_bayesdrop.layers.DropConnectConv2D")
class DropConnectConv2D(NoisyWeightsLayer, keras.layers.Conv2D):
    """A convolution whose weights are dropped, each by itself.

        y = activation(conv(x, W * M) + b)
        M[i, j, c, f] = keep / (1 - rate),    keep ~ Bernoulli(1 - rate)

    A weight has the same noise at all places of an image. See
    `DropConnectDense` for when the noise is on, and for other noise. In
    training one draw of `M` serves the batch, whatever the noise.

    Args:
        filters: Positive int. Number of output channels.
        kernel_size: Int or pair of ints.
        rate: Float in `[0, 1]`. Probability of dropping a weight. `None` for
            noise that has no rate.
        noise: Name of a family or an instance, as in `MCDropout`. Defaults to
            `"bernoulli"`.
        seed: Optional int. Makes the noise of training reproducible.
        **kwargs: Passed to `keras.layers.Conv2D`, e.g. `strides`.

    Call arguments:
        inputs: Tensor of rank 4.
        training: Bool or `None`. Whether to apply noise.

    Example:
    ```python
    layer = keras_bayesdrop.layers.DropConnectConv2D(16, 3, 0.5)
    layer(keras.ops.ones((2, 28, 28, 1)), training=True)
    ```

    References:
        - [Wan et al., 2013](https://proceedings.mlr.press/v28/wan13.html).
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          section 3.5.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int | tuple[int, int],
        rate: float | None = None,
        *,
        noise: str | Multiplicative = "bernoulli",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(filters, kernel_size, **kwargs)
        self._set_noise(rate, noise, seed)
