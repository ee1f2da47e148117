# SPDX-License-Identifier: Apache-2.0
"""Priors of single weights, or of the factors that multiply them."""

import math
import warnings
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.layers._gaussian.weights import GaussianWeights
from keras_bayesdrop.layers._gaussian.weights import Limits
from keras_bayesdrop.priors import LogUniformPrior
from keras_bayesdrop.priors import WeightPrior
from keras_bayesdrop.priors import get

KLS = ("exact", "molchanov", "kingma")
# Kingma's cubic was fitted up to alpha = 1.
_KINGMA_LIMIT = 0.0

# Warnings that were shown: a process shows each once, for all its layers.
_shown: set[str] = set()


class WeightwisePrior:
    """A prior that treats weights or factors as independent.

    Only the log-uniform prior has limits of log alpha. A proper prior turns a
    weight that is not needed into a draw from the prior, with a mean of zero
    and an infinite alpha.

    Args:
        prior: Name, config or instance of a weight prior of `priors`.
        kl: One of `KLS` for the log-uniform prior, or `None`.
        log_alpha_limit: Positive float or `None`.

    Attributes:
        prior: The prior of a single weight or factor.
        limits: Least and largest log alpha, or `None` for no limits.
    """

    def __init__(
        self, prior: Any, kl: Any = None, log_alpha_limit: Any = None
    ) -> None:
        if log_alpha_limit is not None:
            check_positive(log_alpha_limit, "log_alpha_limit")
            log_alpha_limit = float(log_alpha_limit)
        self.log_alpha_limit = log_alpha_limit
        self.prior = _check_prior(prior, kl)
        self.limits = _limits_of(self.prior, log_alpha_limit)

    def build(self, layer: Any) -> None:
        """Adds no variables: this prior has none."""

    def kl(self, weights: GaussianWeights) -> Any:
        """Returns the KL divergence of Gaussian weights in nats, a scalar.

        For correlated weights it is the KL of their factors, one a row; see
        `VariationalDense`.
        """
        shape = weights.kernel.shape
        if weights.correlated:
            return self.kl_of_factors(weights.log_alpha(), shape[-2])
        multiplicative = weights.parametrization == "multiplicative"
        log_uniform = isinstance(self.prior, LogUniformPrior)
        if log_uniform and (multiplicative or self.limits is not None):
            return self.kl_of_factors(weights.log_alpha(), math.prod(shape))
        kl = self.prior.kl(weights.mean(), weights.log_variance())
        return keras.ops.sum(kl)

    def nats(self, weights: GaussianWeights) -> Any:
        """Returns what is penalised: the KL divergence."""
        return self.kl(weights)

    def kl_of_factors(self, log_alpha: Any, count: int) -> Any:
        """Returns the KL of `count` factors `s ~ N(1, alpha)`, in nats.

        Under the log-uniform prior that is also the KL of as many weights
        `s * theta`, whatever `theta` is.

        Args:
            log_alpha: Tensor with a value for each factor, or for as many of
                them as share it.
            count: Number of factors.

        Returns:
            Scalar tensor.
        """
        if isinstance(self.prior, LogUniformPrior):
            kl = self.prior.kl_of_log_alpha(log_alpha)
        else:
            kl = self.prior.kl(keras.ops.ones_like(log_alpha), log_alpha)
        return keras.ops.sum(kl) * (count / math.prod(log_alpha.shape))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that the layer's constructor has for it."""
        return {
            "prior": keras.saving.serialize_keras_object(self.prior),
            "log_alpha_limit": self.log_alpha_limit,
        }


def _check_prior(prior: Any, kl: Any) -> WeightPrior:
    """Returns the prior of an identifier and the form of its KL.

    Shows the prior's warning, if it has one, once a process.
    """
    checked: WeightPrior = get(prior, of="weights")
    if kl is not None:
        check_choice(kl, "kl", KLS)
        if not isinstance(checked, LogUniformPrior):
            raise invalid("kl", kl, f"`None` with prior={checked!r}")
        if isinstance(prior, LogUniformPrior) and prior.form != kl:
            raise invalid("kl", kl, f"`None` with prior={prior!r}")
        checked = LogUniformPrior(kl=kl)
    if checked.warning is not None and checked.warning not in _shown:
        _shown.add(checked.warning)
        # Frames: here, `WeightwisePrior`, `__init__` of the layer, its caller.
        warnings.warn(checked.warning, BayesdropWarning, stacklevel=4)
    return checked


def _limits_of(prior: WeightPrior, limit: float | None) -> Limits | None:
    """Returns the least and the largest log alpha, or `None` for no limits."""
    if not isinstance(prior, LogUniformPrior):
        return None
    high = math.inf if limit is None else limit
    limits = -high, min(high, _KINGMA_LIMIT) if prior.form == "kingma" else high
    return None if limits == (-math.inf, math.inf) else limits
