# SPDX-License-Identifier: Apache-2.0
"""Gaussian dropout that learns its variance."""

import weakref
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.layers._gaussian.weights import clip
from keras_bayesdrop.layers._gaussian.weightwise_prior import WeightwisePrior
from keras_bayesdrop.layers._kl_penalty import KLPenalty
from keras_bayesdrop.layers._operations import wide_dtype
from keras_bayesdrop.layers._parts import part_attribute
from keras_bayesdrop.layers._random import draw_normal
from keras_bayesdrop.layers.sources import PlainInside
from keras_bayesdrop.losses.likelihood import refuse_loss_keywords
from keras_bayesdrop.noise import LearnedGaussian
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import NoiseSource

GRANULARITIES = ("layer", "unit")


@export("keras_bayesdrop.layers.VariationalDropout")
class VariationalDropout(keras.layers.Layer, NoiseSource, PlainInside):
    """Gaussian dropout whose variance is learned.

        y = x * s,    s ~ N(1, alpha)

    with `alpha` for the layer or for each unit (the last axis). Dropout of
    rate `p` has `alpha = p / (1 - p)`. In training and in
    `predict_with_uncertainty` every value has a factor of its own (with
    `masks="shared"`, one for all rows of a sample); elsewhere the noise is off.

    What holds `alpha` up is the KL of the factors from their prior,

        KL = M * sum over units { KL(N(1, alpha) || prior) }

    of which `kl_weight * c / (N * D) * KL` is added to the loss, as in
    `VariationalDense`. `M` is `weights_per_unit`. Kingma et al. (2015) have the
    KL of the weights behind the dropout from the log-uniform prior, one term
    for each weight: that is `M` = the number of outputs of the next layer. But
    all weights of a unit share one factor, and so a KL over the weights is
    infinite (Hron et al., 2017, section 3). `M = 1`, the default, is a KL over
    the factors; the weights are then parameters that it does not regularise.
    With `VariationalDense(..., parametrization="correlated")` this is the same
    model, where a row is a unit.

    The default prior is Gaussian. The log-uniform prior of the reference is
    improper, and warns once a process.

    Args:
        num_train_examples: Positive int. Number of training examples `N`.
        alpha: `"layer"`, or `"unit"` for one alpha each. Defaults to
            `"layer"`.
        prior: Name or instance of a prior of `keras_bayesdrop.priors`,
            for the factors. Defaults to `"gaussian"`.
        kl: As in `VariationalDense`. `"kingma"` keeps `alpha <= 1`.
        weights_per_unit: Positive int `M`. Defaults to `1`.
        log_alpha_limit: As in `VariationalDense`.
        noise_initializer: Initializer of `log alpha`. Defaults to -3, which is
            dropout of rate 0.05.
        likelihood: As in `VariationalDense`.
        seed: Optional int. Makes the noise of training reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor [batch, ..., units].
        training: Bool or `None`. Whether to apply the noise.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(256, activation="relu"),
        keras_bayesdrop.layers.VariationalDropout(len(x), alpha="unit"),
        keras.layers.Dense(10, activation="softmax"),
    ])
    ```

    References:
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557).
        - [Hron et al., 2017](https://arxiv.org/abs/1711.02989).
    """

    num_train_examples = part_attribute("kl_penalty", "num_train_examples")
    likelihood = part_attribute("kl_penalty", "likelihood")
    prior = part_attribute("factor_prior", "prior")
    log_alpha_limit = part_attribute("factor_prior", "log_alpha_limit")

    def __init__(
        self,
        num_train_examples: int,
        *,
        alpha: str = "layer",
        prior: Any = "gaussian",
        kl: str | None = None,
        weights_per_unit: int = 1,
        log_alpha_limit: float | None = None,
        noise_initializer: Any = None,
        likelihood: Any = "nll",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_loss_keywords(kwargs)
        super().__init__(**kwargs)
        self.kl_penalty = KLPenalty(
            self,
            self.kl_divergence,
            num_train_examples,
            likelihood,
        )
        self.kl_weight = self.kl_penalty.weight
        self.alpha = check_choice(alpha, "alpha", GRANULARITIES)
        self.weights_per_unit = check_positive_int(
            weights_per_unit, "weights_per_unit"
        )
        self.factor_prior = WeightwisePrior(prior, kl, log_alpha_limit)
        if noise_initializer is None:
            noise_initializer = keras.initializers.Constant(-3.0)
        self.noise_initializer = keras.initializers.get(noise_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Makes `log alpha`."""
        self._units = int(input_shape[-1])
        self.log_noise = self.add_weight(
            name="log_alpha",
            shape=() if self.alpha == "layer" else (self._units,),
            initializer=self.noise_initializer,
            regularizer=self.kl_penalty,
            autocast=False,
        )
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Multiplies by the noise in training, and does nothing otherwise."""
        if not training:
            return inputs
        wide = wide_dtype(self)
        sizes = keras.ops.shape(inputs)
        noise = draw_normal(sizes, wide, self.seed_generator)
        factor = 1.0 + self.noise_stddev() * noise
        outputs = keras.ops.cast(inputs, wide) * factor
        return keras.ops.cast(outputs, self.compute_dtype)

    def kl_divergence(self) -> Any:
        """Returns the KL in nats, without `kl_weight`."""
        count = self._units * self.weights_per_unit
        return self.factor_prior.kl_of_factors(self.log_alpha(), count)

    def log_alpha(self) -> Any:
        """Returns the logarithm of the variance of the factors."""
        log_alpha = keras.ops.cast(self.log_noise, wide_dtype(self))
        return clip(log_alpha, self.factor_prior.limits)

    def noise_stddev(self) -> Any:
        """Returns the standard deviation of the factors."""
        return keras.ops.exp(0.5 * self.log_alpha())

    def noise_site(self) -> tuple[Noise, None]:
        """Returns the noise of predictions with uncertainty."""
        return LearnedGaussian(weakref.ref(self)), None

    def plain_layers(self) -> list[keras.layers.Layer]:
        """Returns nothing: without its noise the layer is the identity."""
        return []

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the input."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            **self.kl_penalty.get_config(),
            **self.factor_prior.get_config(),
            "alpha": self.alpha,
            "weights_per_unit": self.weights_per_unit,
            "noise_initializer": keras.initializers.serialize(
                self.noise_initializer
            ),
            "seed": self.seed,
        }
