# SPDX-License-Identifier: Apache-2.0
"""Relative noise `alpha = sigma^2 / theta^2`: its prior, its limits, its KL."""

import math
import warnings
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.priors import LogUniformPrior
from keras_bayesdrop.priors import WeightPrior
from keras_bayesdrop.priors import get

KLS = ("exact", "molchanov", "kingma")
# Kingma's cubic was fitted up to alpha = 1.
_KINGMA_LIMIT = 0.0

Limits = tuple[float, float]

# Warnings given: a process hears each once, however many layers it makes.
_told: set[str] = set()


def check_prior(prior: Any, kl: Any) -> WeightPrior:
    """Returns the prior that an identifier and the form of its KL stand for.

    Warns once of a prior that has something to warn of.
    """
    checked: WeightPrior = get(prior, of="weights")
    if kl is not None:
        check_choice(kl, "kl", KLS)
        if not isinstance(checked, LogUniformPrior):
            raise invalid("kl", kl, f"`None` with prior={checked!r}")
        if isinstance(prior, LogUniformPrior) and prior.form != kl:
            raise invalid("kl", kl, f"`None` with prior={prior!r}")
        checked = LogUniformPrior(kl=kl)
    if checked.warning is not None and checked.warning not in _told:
        _told.add(checked.warning)
        # Seen from here: `_init_*` of the layer, its `__init__`, its user.
        warnings.warn(checked.warning, BayesdropWarning, stacklevel=4)
    return checked


def check_limit(limit: Any) -> float | None:
    """Returns the limit of log alpha as a positive float, or `None`."""
    return None if limit is None else check_positive(limit, "log_alpha_limit")


def limits_of(prior: WeightPrior, limit: float | None) -> Limits | None:
    """Returns the least and the largest log alpha, or `None` for no limits.

    Proper priors have none: what they make of a weight that is not needed, a
    draw from the prior, has a mean of zero and an infinite alpha.
    """
    if not isinstance(prior, LogUniformPrior):
        return None
    high = math.inf if limit is None else limit
    limits = -high, min(high, _KINGMA_LIMIT) if prior.form == "kingma" else high
    return None if limits == (-math.inf, math.inf) else limits


def clip(log_alpha: Any, limits: Limits | None) -> Any:
    """Clips log alpha, and leaves it a way back.

    Beyond a limit the gradient of a plain clip is zero: a weight that got
    there would stay. Here a gradient that leads back inside is passed on, and
    only one that leads further out is not.
    """
    if limits is None:
        return log_alpha
    low, high = limits

    @keras.ops.custom_gradient
    def clipped(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            # Descent goes against the gradient.
            outwards = keras.ops.where(upstream < 0, x > high, x < low)
            return keras.ops.where(outwards, 0.0, upstream)

        return keras.ops.clip(x, low, high), gradient

    return clipped(log_alpha)


def sum_kl(prior: WeightPrior, log_alpha: Any, count: int) -> Any:
    """Returns the KL of `count` factors `s ~ N(1, alpha)`, in nats.

    Under the log-uniform prior that is also the KL of as many weights
    `s * theta`, whatever `theta` is.

    Args:
        prior: Of the factors.
        log_alpha: Tensor with a value for each factor, or for as many of them
            as share it.
        count: Number of factors.

    Returns:
        Scalar tensor.
    """
    if isinstance(prior, LogUniformPrior):
        kl = prior.kl_of_log_alpha(log_alpha)
    else:
        kl = prior.kl(keras.ops.ones_like(log_alpha), log_alpha)
    return keras.ops.sum(kl) * (count / math.prod(log_alpha.shape))
