# SPDX-License-Identifier: Apache-2.0
"""A dense layer with a Gaussian posterior and a structured prior."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.layers._gaussian.estimators import get_estimator
from keras_bayesdrop.layers._gaussian.layer import StructuredLayer
from keras_bayesdrop.layers._gaussian.structured_prior import StructuredPrior
from keras_bayesdrop.losses.likelihood import refuse_loss_keywords


@export("keras_bayesdrop.layers.BayesianDense")
class BayesianDense(StructuredLayer, keras.layers.Dense):
    """A `Dense` layer with Gaussian weights, whose prior learns its scales.

        y = activation(x @ w + bias)
        posterior    w[r, j] ~ N(theta[r, j], sigma[r, j]^2)
        prior        w[r, j] ~ N(0, sigma0^2 * xi[r]^2 * tau^2)

    A scale `xi[r]` is that of an input unit, `tau` that of the layer, and both
    have a prior of their own. By `structure`,

    - `"ard"`, automatic relevance determination, has the `xi` and `tau = 1`:
      inputs of no use get a small scale;
    - `"add"`, automatic depth determination, has `tau` and `xi = 1`: so does a
      layer of no use, beside a skip connection;
    - `"ard_add"` has both;
    - `None` has neither: a plain `N(0, sigma0^2)`.

    The scales are at their optimum for the posterior, which is known in closed
    form (see `keras_bayesdrop.priors.structured_scales`). Added to the loss is

        kl_weight * c / (N * D) * (KL(posterior || prior) - log p(scales))

    with `N` training examples, and `D` and `c` by the loss as in `DropoutL2`
    (both 1 for a log-likelihood in nats). The scales are held fixed under the
    gradient, so that steps of an optimizer on the rest are variational EM with
    an M-step at each of them. `keras_bayesdrop.relevance` shows the scales.

    In training the noise comes by one of two estimators with the same mean and
    variance of each output:

    - `"flipout"` draws the weights' deviations once for the batch, and
      multiplies them by random signs, one for each input unit and each output
      unit of an example. All an example's positions, if there are several,
      see the same weights.
    - `"local"`, local reparametrisation, draws each output from its Gaussian,
      anew for each example and position. Examples are independent, not only
      uncorrelated, and gradients have less variance.

    `predict_with_uncertainty` draws the weights: a sample is one function.
    Elsewhere (`predict`, `evaluate`, a plain call) the weights are `theta`. The
    bias is a parameter without distribution. Weights that are noise only
    become zeros in `keras_bayesdrop.sparsity.prune`.

    Args:
        units: Positive int. Number of outputs.
        num_train_examples: Positive int. Number of training examples `N`.
        structure: `"ard"`, `"add"`, `"ard_add"` (or `"ard-add"`) or `None`.
            Defaults to `"ard"`.
        scale_prior: Prior of the scales: `"inverse_gamma"`, `"half_cauchy"`,
            `"log_uniform"`, or a `keras_bayesdrop.priors.ScalePrior`. For
            `"ard_add"` it is that of both, unless it is a pair: that of `xi`,
            and that of `tau`. Defaults to `"inverse_gamma"`, with `a = b = 3`.
            Must be `None` if `structure=None`.
        sigma0: Positive float. Unit of the scales. Defaults to `1.0`.
        estimator: `"flipout"` or `"local"`. Defaults to `"flipout"`.
        scales: `"inline"`, or `"variable"` to hold them in variables, 1 to
            begin with, which only `update_scales` changes; the callback
            `VariationalEM` calls it. Defaults to `"inline"`.
        noise_initializer: Initializer of `log sigma^2`. Defaults to -6, a
            standard deviation of 5%.
        likelihood: The likelihood that the model's loss stands for: `"nll"`
            for a negative log-likelihood in nats, such as cross-entropy,
            `keras_bayesdrop.losses.GaussianLikelihood(noise_precision)` for a
            squared error, or another `keras_bayesdrop.losses.Likelihood`.
            Defaults to `"nll"`.
        seed: Optional int. Makes the noise of training reproducible.
        **kwargs: Passed to `keras.layers.Dense`, e.g. `activation`,
            `use_bias`, `kernel_initializer` and `name`.

    Call arguments:
        inputs: Tensor [batch, ..., features].
        training: Bool or `None`. Whether to add the noise.

    Attributes:
        kl_weight: Scalar variable, 1 to begin with, not trained. Raise it from
            0 over the first epochs, or `KLAnnealing` does.

    Raises:
        BayesdropError: If the scales of `"ard_add"` have no joint optimum; in
            `build`, if that depends on the number of inputs.

    Example:
    ```python
    layers = keras_bayesdrop.layers
    model = keras.Sequential([
        layers.BayesianDense(
            50, len(x), scale_prior="half_cauchy", activation="relu"
        ),
        layers.BayesianDense(10, len(x), activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=100)
    print(keras_bayesdrop.relevance(model))
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
        - [Wen et al., 2018](https://arxiv.org/abs/1803.04386), flipout.
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), local
          reparametrisation.
    """

    plain_class = keras.layers.Dense

    def __init__(
        self,
        units: int,
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
        super().__init__(units, **kwargs)
        self._compose(
            num_train_examples,
            likelihood,
            noise=self._structured_noise(noise_initializer),
            prior=StructuredPrior(structure, scale_prior, sigma0, scales),
            sampler=get_estimator(estimator),
            seed=seed,
        )
