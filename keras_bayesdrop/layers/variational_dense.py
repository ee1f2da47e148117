# SPDX-License-Identifier: Apache-2.0
"""A dense layer with learned Gaussian noise on its weights."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop.layers._gaussian.estimators import estimator_for
from keras_bayesdrop.layers._gaussian.kernel_noise import KernelNoise
from keras_bayesdrop.layers._gaussian.layer import VariationalLayer
from keras_bayesdrop.layers._gaussian.weightwise_prior import WeightwisePrior
from keras_bayesdrop.losses.likelihood import refuse_loss_keywords


@export("keras_bayesdrop.layers.VariationalDense")
class VariationalDense(VariationalLayer, keras.layers.Dense):
    """A `Dense` layer whose weights are Gaussian, with learned variances.

        y = activation(x @ w + bias),    w = theta + sigma * e,    e ~ N(0, 1)

    Training draws each output from its distribution under the weights. Its
    gradients vary less than those of drawn weights (local reparametrisation):

        y ~ N(x @ theta, x^2 @ sigma^2)

    `predict_with_uncertainty` draws the weights: a sample is one function.
    Elsewhere (`predict`, `evaluate`, a plain call) the weights are `theta`.

    The layer adds `kl_weight * c / (N * D) * KL(q || prior)` to the loss, the
    sum over all weights, with `N` training examples, and `D` and `c` by the
    loss as in `DropoutL2` (both 1 for a log-likelihood in nats). Weights of
    large

        alpha = sigma^2 / theta^2

    are noise only, and `keras_bayesdrop.sparsity.prune` removes them.

    **Parametrisations.** `"additive"` learns `theta` and `log sigma^2` of each
    weight (Molchanov et al., 2017): what makes networks sparse.
    `"multiplicative"` learns `theta` and `log alpha` (Kingma et al., 2015), for
    each weight, for each row of the kernel, or for the layer. They are not the
    same: `theta = 0` is an optimum of the first that the second does not have
    (Hron et al., 2017, section 4).

    `"correlated"` has one factor for all weights of an input unit, as dropout
    has, `w[i, j] = theta[i, j] * s[i]` with `s[i] ~ N(1, alpha[i])`. Its `q`
    has mass only along the directions that `theta` defines, a set of measure
    zero. Hence its KL from the log-uniform prior, and from any prior with a
    density over the weights, is infinite whatever `theta` is, and `q` is no
    approximation of their posterior (Hron et al., 2017, section 3). The KL
    here is the other reading of that section: the prior is one of the factors
    `s[i]`, with a term for each row. `theta` are then parameters of the model
    that nothing regularises, and many of them can overfit.

    **Priors.** The default is Gaussian. `"log_uniform"` makes networks sparse.
    It is improper, and so is the posterior (Hron et al., 2017, proposition 1):
    the layer learns a penalised maximum likelihood estimate, and warns once a
    process. For uncertainty use a proper prior.

    Args:
        units: Positive int. Number of outputs.
        num_train_examples: Positive int. Number of training examples `N`.
        parametrization: `"additive"`, `"multiplicative"` or `"correlated"`.
            Defaults to `"additive"`.
        prior: Name or instance of a prior of
            `keras_bayesdrop.priors`. Defaults to `"gaussian"`, a proper prior
            of standard deviation 1.
        kl: How the KL of the log-uniform prior is computed: `"exact"`, or the
            approximations `"molchanov"` and `"kingma"` (which keeps
            `alpha <= 1`, where it holds). Defaults to `"exact"`; must be `None`
            with other priors.
        alpha: What has a noise of its own: `"weight"`, `"row"` (the weights of
            an input unit) or `"layer"`. Defaults to `"weight"`, the only choice
            of `"additive"`; to `"row"` if correlated.
        log_alpha_limit: Positive float or `None`. With the log-uniform prior
            `log alpha` is clipped to plus or minus this; the code of Molchanov
            et al. has 8. A gradient that leads back inside is passed on, which
            a plain clip would lose. Nothing here needs a limit, and it costs
            time. Defaults to `None`.
        train_threshold: Float or `None`. In training the mean of a weight is
            taken as zero while its `log alpha` is above this: the data do not
            pull at weights that pruning will remove, and more of them stay
            removed. The code of Molchanov et al. has 3. Not for correlated
            noise. Defaults to `None`.
        noise_initializer: Initializer of `log sigma^2` if additive, which
            defaults to -10 as published; else of `log alpha`, which defaults to
            -3, a noise of 22%.
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
        training: Bool or `None`. Whether to draw the outputs.

    Attributes:
        kl_weight: Scalar variable, 1 to begin with, not trained. Raise it from
            0 over the first epochs, or `KLAnnealing` does.

    Example:
    ```python
    layers = keras_bayesdrop.layers
    model = keras.Sequential([
        layers.VariationalDense(300, len(x), activation="relu"),
        layers.VariationalDense(10, len(x), activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=100)
    p = keras_bayesdrop.predict_with_uncertainty(model, x)
    ```

    References:
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557).
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369).
        - [Hron et al., 2017](https://arxiv.org/abs/1711.02989).
    """

    plain_class = keras.layers.Dense

    def __init__(
        self,
        units: int,
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
        super().__init__(units, **kwargs)
        self._compose(
            num_train_examples,
            likelihood,
            noise=KernelNoise(parametrization, alpha, noise_initializer),
            prior=WeightwisePrior(prior, kl, log_alpha_limit),
            sampler=estimator_for(parametrization, train_threshold),
            seed=seed,
        )
