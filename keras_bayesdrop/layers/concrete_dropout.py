# SPDX-License-Identifier: Apache-2.0
"""Dropout that learns its rate."""

from numbers import Real
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.layers._dropout import dropped_kernel
from keras_bayesdrop.layers._dropout.concrete_noise import ConcreteNoise
from keras_bayesdrop.layers._kl_penalty import KLPenalty
from keras_bayesdrop.layers._parts import part_attribute
from keras_bayesdrop.losses.likelihood import refuse_loss_keywords
from keras_bayesdrop.noise import NoiseThenLayer

SAMPLINGS = ("bernoulli", "concrete")


@export("keras_bayesdrop.layers.ConcreteDropout")
class ConcreteDropout(keras.layers.Wrapper, NoiseThenLayer):
    """Dropout before a layer, with a rate that is learned with the weights.

    In training the mask is a smooth function of the rate, so that the rate has
    a gradient (the concrete distribution):

        y = layer(x * (1 - z) / (1 - rate)),    u ~ U(0, 1)
        z = sigmoid((logit(rate) + logit(u)) / temperature)

    `predict_with_uncertainty` then drops units outright, with the learned
    rate. Elsewhere (`predict`, `evaluate`, a plain call) the noise is off, as
    in `keras.layers.Dropout`.

    What the rate is learned from is the evidence lower bound. Against the
    prior `W ~ N(0, 1 / l^2)` a kernel `W` with `K` input units, each dropped
    with its weights, has (up to a constant)

        KL = l^2 / (2 * (1 - rate)) * sum(W^2) - K * H(rate)
        H(rate) = -rate * log(rate) - (1 - rate) * log(1 - rate)

    in nats. The entropy `H` draws the rate towards one half, and the data
    holds it back: the more data, the lower the rate. Added to the loss is

        kl_weight * c / (N * D) * KL

    with `N` training examples, `D` outputs, and `c` by the loss:

    - a log-likelihood in nats, such as cross-entropy: `c = 1`;
    - Keras' mean squared error, with noise of precision `tau`: `c = 2 / tau`;
    - half of it: `c = 1 / tau`.

    The published code of the authors has `l^2 / ((1 - rate) * N)` and `2 / N`
    as factors of `sum(W^2)` and `-K * H`, for a loss that is twice the
    negative log-likelihood: that is `GaussianLikelihood(1.0)`.
    (For cross-entropy they drop the 2 of the entropy only, which makes `l^2`
    twice what it is here.)

    The penalty is part of `losses` as those of Keras' regularizers are: in
    `fit` and in `evaluate`, and not if the whole layer is frozen. Bias, and
    the pointwise kernel of a separable convolution, are not part of it.

    Args:
        layer: A `Dense`, `EinsumDense`, `Conv1D`, `Conv2D`, `Conv3D`,
            `DepthwiseConv1D`, `DepthwiseConv2D`, `SeparableConv1D` or
            `SeparableConv2D` layer. Convolutions drop whole feature maps.
        num_train_examples: Positive int. Number of training examples `N`.
        length_scale: Positive float. Prior length scale `l`: the prior
            standard deviation of a weight is `1 / l`. Defaults to the
            authors' `1e-4`.
        init_rate: Float in `(0, 1)`. Rate to begin with. Defaults to `0.1`.
        temperature: Positive float. The lower, the nearer the mask of training
            is to 0 or 1, and the noisier the gradient. Defaults to `0.1`.
        sampling: Mask of `predict_with_uncertainty`: `"bernoulli"`, of 0 and
            1, or `"concrete"`, as in training. Defaults to `"bernoulli"`,
            which the compiled engine runs.
        likelihood: The likelihood that the model's loss stands for: `"nll"`
            for a negative log-likelihood in nats, such as cross-entropy,
            `keras_bayesdrop.losses.GaussianLikelihood(noise_precision)` for a
            squared error, or another `keras_bayesdrop.losses.Likelihood`.
            Defaults to `"nll"`.
        seed: Optional int. Makes the masks of training reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor, as `layer` takes it.
        training: Bool or `None`. Whether to apply the smooth mask.

    Attributes:
        rate: Python float, the rate as it is now.
        kl_weight: Scalar variable, 1 to begin with, not trained. `KLAnnealing`
            moves it; it is saved with the model.

    Example:
    ```python
    def dropped(layer):
        return keras_bayesdrop.layers.ConcreteDropout(
            layer, num_train_examples=len(x)
        )

    model = keras.Sequential([
        keras.layers.Dense(256, activation="relu"),
        dropped(keras.layers.Dense(256, activation="relu")),
        dropped(keras.layers.Dense(10, activation="softmax")),
    ])
    model.compile("adam", "sparse_categorical_crossentropy")
    ```

    References:
        - [Gal et al., 2017](https://arxiv.org/abs/1705.07832).
    """

    num_train_examples = part_attribute("kl_penalty", "num_train_examples")
    likelihood = part_attribute("kl_penalty", "likelihood")

    def __init__(
        self,
        layer: Any,
        num_train_examples: int,
        *,
        length_scale: float = 1e-4,
        init_rate: float = 0.1,
        temperature: float = 0.1,
        sampling: str = "bernoulli",
        likelihood: Any = "nll",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_loss_keywords(kwargs)
        super().__init__(dropped_kernel.check_inner_layer(layer), **kwargs)
        self.kl_penalty = KLPenalty(
            self,
            self.kl_divergence,
            num_train_examples,
            likelihood,
        )
        self.kl_weight = self.kl_penalty.weight
        self.length_scale = check_positive(length_scale, "length_scale")
        self.seed = seed
        self.supports_masking = layer.supports_masking
        self.noise = ConcreteNoise(
            _check_open_rate(init_rate),
            temperature=check_positive(temperature, "temperature"),
            sampling=check_choice(sampling, "sampling", SAMPLINGS),
            noise_shape=dropped_kernel.noise_shape(layer),
            regularizer=self.kl_penalty,
            seed=seed,
            name="noise",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape: Any) -> None:
        """Makes the variables of the layer, and those of the noise."""
        super().build(input_shape)
        self.noise.build(input_shape)
        self._num_units = dropped_kernel.count_units(self.layer, input_shape)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Calls the layer, in training on inputs with a relaxed mask."""
        return self.layer(self.noise(inputs, training=training))

    def noise_then_layer(self) -> tuple[Any, Any]:
        """Returns the noise, and the layer that it is the input of."""
        return self.noise, self.layer

    @property
    def rate(self) -> float:
        """The probability of dropping a unit, as it is now."""
        return self.noise.rate

    def kl_divergence(self) -> Any:
        """Returns the KL in nats, without its constant and `kl_weight`."""
        logit = keras.ops.convert_to_tensor(self.noise.logit)
        rate = keras.ops.sigmoid(logit)
        # log(rate) = -softplus(-logit), log(1 - rate) = -softplus(logit)
        entropy = rate * keras.ops.softplus(-logit) + (
            1.0 - rate
        ) * keras.ops.softplus(logit)
        kernel = dropped_kernel.dropped_kernel(self.layer)
        squares = _sum_of_squares(keras.ops.cast(kernel, logit.dtype))
        weight_decay = 0.5 * self.length_scale**2 * (1.0 + keras.ops.exp(logit))
        return weight_decay * squares - self._num_units * entropy

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the output of the layer."""
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            **self.kl_penalty.get_config(),
            "length_scale": self.length_scale,
            "init_rate": self.noise.init_rate,
            "temperature": self.noise.temperature,
            "sampling": self.noise.sampling,
            "seed": self.seed,
        }


def _sum_of_squares(kernel: Any) -> Any:
    """Returns the sum over a kernel, column by column.

    XLA on a CPU adds up many sums at once, but one sum number by number: for
    1024 x 1024 weights 0.6 ms against 1.2. The maximum, which changes nothing,
    keeps it from making one of the two.
    """
    axes = tuple(range(len(kernel.shape) - 1))
    columns = keras.ops.sum(keras.ops.square(kernel), axis=axes)
    return keras.ops.sum(keras.ops.maximum(columns, 0.0))


def _check_open_rate(rate: Any) -> float:
    """Returns the rate if it has a finite logit."""
    real = isinstance(rate, Real) and not isinstance(rate, bool)
    if not real or not 0 < rate < 1:
        raise invalid("init_rate", rate, "a float in (0, 1)")
    return float(rate)
