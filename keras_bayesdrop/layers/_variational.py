# SPDX-License-Identifier: Apache-2.0
"""What layers that learn a distribution of their kernel share."""

import math
from numbers import Real
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.layers._log_alpha import check_limit
from keras_bayesdrop.layers._log_alpha import check_prior
from keras_bayesdrop.layers._log_alpha import limits_of
from keras_bayesdrop.layers._log_alpha import sum_kl
from keras_bayesdrop.layers._posterior import PosteriorKernel
from keras_bayesdrop.priors import LogUniformPrior

# Per parametrisation, what can have an alpha of its own, the default first.
GRANULARITIES = {
    "additive": ("weight",),
    "multiplicative": ("weight", "row", "layer"),
    "correlated": ("row", "layer"),
}
# Where the noise begins: log sigma^2 as published, else log alpha.
_INITIAL = {"additive": -10.0, "multiplicative": -3.0, "correlated": -3.0}


class VariationalKernel(PosteriorKernel):
    """Mixin of a layer of Keras: arguments and KL of its noise."""

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

    def kl_divergence(self) -> Any:
        """Returns KL(posterior || prior) in nats, without `kl_weight`."""
        if self.parametrization == "correlated":
            # Of the factors, one a row; see `VariationalDense`.
            rows = self.kernel.shape[-2]
            return sum_kl(self.prior, self.log_alpha(), rows)
        multiplicative = self.parametrization == "multiplicative"
        log_uniform = isinstance(self.prior, LogUniformPrior)
        if log_uniform and (multiplicative or self._limits is not None):
            weights = math.prod(self.kernel.shape)
            return sum_kl(self.prior, self.log_alpha(), weights)
        kl = self.prior.kl(self.mean_kernel(), self._log_variance())
        return keras.ops.sum(kl)

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

    def _noise_shape(self) -> tuple[int, ...]:
        """Returns the shape of `log_noise`, which broadcasts to the kernel."""
        kernel = tuple(self.kernel.shape)
        shapes = {"weight": kernel, "row": (kernel[-2], 1), "layer": ()}
        return shapes[self.alpha]


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
