# SPDX-License-Identifier: Apache-2.0
"""What layers that learn a distribution of their kernel share."""

import math
from numbers import Real
from typing import Any

import keras

from keras_bayesdrop._validate import check_choice
from keras_bayesdrop._validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._gaussian_kernel import GaussianKernel
from keras_bayesdrop.layers._kl_weight import KLLayer
from keras_bayesdrop.layers._log_alpha import check_limit
from keras_bayesdrop.layers._log_alpha import check_prior
from keras_bayesdrop.layers._log_alpha import limits_of
from keras_bayesdrop.layers._log_alpha import sum_kl
from keras_bayesdrop.weight_priors import LogUniform

# Per parametrisation, what can have an alpha of its own, the default first.
GRANULARITIES = {
    "additive": ("weight",),
    "multiplicative": ("weight", "row", "layer"),
    "correlated": ("row", "layer"),
}
# Where the noise begins: log sigma^2 as published, else log alpha.
_INITIAL = {"additive": -10.0, "multiplicative": -3.0, "correlated": -3.0}


class VariationalKernel(KLLayer, GaussianKernel):
    """Mixin of a layer of Keras: arguments, variables and KL of its noise."""

    # Of the layer of Keras.
    name: str

    def _init_posterior(
        self,
        parametrization: str,
        prior: Any,
        kl: str | None,
        alpha: str | None,
        log_alpha_limit: float | None,
        train_threshold: float | None,
        noise_initializer: Any,
        seed: int | None,
    ) -> None:
        """Checks and keeps the arguments; see `VariationalDense` for them."""
        check_choice(parametrization, "parametrization", tuple(GRANULARITIES))
        self.parametrization = parametrization
        self.alpha = _check_granularity(alpha, parametrization)
        self.log_alpha_limit = check_limit(log_alpha_limit)
        self.train_threshold = _check_threshold(
            train_threshold, parametrization
        )
        if noise_initializer is None:
            noise_initializer = keras.initializers.Constant(
                _INITIAL[parametrization]
            )
        self.noise_initializer = keras.initializers.get(noise_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.prior = check_prior(prior, kl)
        self._limits = limits_of(self.prior, self.log_alpha_limit)

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a variable that is not cast to the compute dtype by itself."""
        kwargs["autocast"] = False
        return super().add_weight(*args, **kwargs)  # type: ignore[misc]

    def build(self, input_shape: Any) -> None:
        """Makes the variables of the layer, of its noise, and `kl_weight`."""
        super().build(input_shape)  # type: ignore[misc]
        kernel = tuple(self.kernel.shape)
        shapes = {"weight": kernel, "row": (kernel[-2], 1), "layer": ()}
        additive = self.parametrization == "additive"
        self.log_noise = self.add_weight(
            name="log_variance" if additive else "log_alpha",
            shape=shapes[self.alpha],
            initializer=self.noise_initializer,
            regularizer=self._kl_penalty,
        )
        self._make_kl_weight()

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Draws the outputs in training, and uses the means otherwise."""
        if training:
            return self._call_noisy(inputs)
        return self.call_expected(inputs)

    def kl_divergence(self) -> Any:
        """Returns KL(posterior || prior) in nats, without `kl_weight`."""
        if self.parametrization == "correlated":
            # Of the factors, one a row; see `VariationalDense`.
            rows = self.kernel.shape[-2]
            return sum_kl(self.prior, self.log_alpha(), rows)
        multiplicative = self.parametrization == "multiplicative"
        log_uniform = isinstance(self.prior, LogUniform)
        if log_uniform and (multiplicative or self._limits is not None):
            weights = math.prod(self.kernel.shape)
            return sum_kl(self.prior, self.log_alpha(), weights)
        kl = self.prior.kl(self.mean_kernel(), self._log_variance())
        return keras.ops.sum(kl)

    def sparsity(self, threshold: float = 3.0) -> float:
        """Returns the share of weights whose log alpha is above a threshold."""
        above = keras.ops.convert_to_numpy(self.log_alpha()) > threshold
        return float(above.mean())

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),  # type: ignore[misc]
            **self._kl_config(),
            "parametrization": self.parametrization,
            "prior": keras.saving.serialize_keras_object(self.prior),
            "alpha": self.alpha,
            "log_alpha_limit": self.log_alpha_limit,
            "train_threshold": self.train_threshold,
            "noise_initializer": keras.initializers.serialize(
                self.noise_initializer
            ),
            "seed": self.seed,
        }

    def enable_lora(self, *args: Any, **kwargs: Any) -> None:
        """Raises: the noise is that of the whole kernel."""
        raise BayesdropError(
            f"Layer `{self.name}` ({type(self).__name__}) cannot have low-rank "
            "updates of its kernel. Expected `lora_rank=None`. Received: a "
            "rank, or a call of `enable_lora`"
        )

    # Dense and convolutions store their kernel and bias, and nothing else.

    def save_own_variables(self, store: Any) -> None:
        """Stores all variables."""
        keras.layers.Layer.save_own_variables(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Loads all variables."""
        keras.layers.Layer.load_own_variables(self, store)


def _check_threshold(threshold: Any, parametrization: str) -> float | None:
    if threshold is None:
        return None
    if parametrization == "correlated":
        # Without its mean such a weight has no noise, and no way back.
        expected = "`None` with parametrization='correlated'"
        raise invalid("train_threshold", threshold, expected)
    real = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not real or not math.isfinite(threshold):
        raise invalid("train_threshold", threshold, "a finite float or `None`")
    return float(threshold)


def _check_granularity(alpha: Any, parametrization: str) -> str:
    choices = GRANULARITIES[parametrization]
    if alpha is None:
        return choices[0]
    if not isinstance(alpha, str) or alpha not in choices:
        options = ", ".join(repr(choice) for choice in choices)
        expected = f"{options} or `None` with parametrization="
        raise invalid("alpha", alpha, f"{expected}{parametrization!r}")
    return alpha
