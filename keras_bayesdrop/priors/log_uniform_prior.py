# SPDX-License-Identifier: Apache-2.0
"""The log-uniform prior of weights, exact and in published approximations."""

import math
from typing import Any
from typing import ClassVar

import keras
import numpy as np

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.priors._log_moment import log_moment
from keras_bayesdrop.priors._numerics import LARGEST_RATIO
from keras_bayesdrop.priors._numerics import dtype_of
from keras_bayesdrop.priors._numerics import exp_log_stddev
from keras_bayesdrop.priors._numerics import ratio_to_stddev
from keras_bayesdrop.priors._numerics import widened
from keras_bayesdrop.priors.base import WeightPrior

FORMS = ("exact", "molchanov", "kingma")

_MOLCHANOV = (0.63576, 1.87320, 1.48695)
_KINGMA = (1.16145124, -1.50204118, 0.58629921)
# The limit of KL0 + log(alpha) / 2 as alpha goes to zero.
_SMALL_ALPHA = 0.5 * (np.euler_gamma + math.log(2.0))


@export("keras_bayesdrop.priors.LogUniformPrior")
class LogUniformPrior(WeightPrior):
    """The prior `p(w) = C / |w|` of variational dropout, which is improper.

    The KL divergence depends on `u = mean^2 / (2 sigma^2) = 1 / (2 alpha)`
    alone, with `alpha = sigma^2 / mean^2`. The constant `C` is free, and is
    chosen so that the divergence is zero at `u = 0`:

        KL0(u) = 2 * integral of D+(s) from 0 to sqrt(u)
        dKL0/du = D+(sqrt u) / sqrt u

    with `D+` the Dawson function. It never decreases in `u`: without data the
    optimum is `alpha = infinity`, which is pure noise.

    **This density is not a distribution, and neither is the posterior.** If
    the likelihood is continuous and positive at `w = 0`, as in every usual
    network, the integral of likelihood times prior is infinite (Hron et al.,
    2017, proposition 1). Training minimises a pseudo-KL: the result is a
    penalised maximum likelihood estimate of `mean` and `sigma`, and its
    predictive spread has no Bayesian meaning. Use it to make networks sparse.
    For uncertainty use a proper prior: `GaussianPrior`, `StudentTPrior`, or
    `HorseshoePrior`, which shrinks small weights much as this one does.

    `kl="exact"` has a relative error below 1e-6 in float32 and below 1e-12 in
    float64, for `u` from 0 to 1e36; its gradient has the same accuracy. The
    other values are for comparison with published results. Their largest
    errors, measured for `log alpha` from -10 to 10:

    | `kl` | of KL | of dKL / dlog alpha |
    |---|---|---|
    | `"molchanov"` | 0.0094 at -3.5 | 0.0137 at -2.5 |
    | `"kingma"`, alpha <= 1 | 0.0403 at -2.1 | 0.0539 at 0 |

    `"kingma"` is a cubic in `alpha` that was fitted for `alpha <= 1` only.
    Beyond, it is constant and has no gradient.

    Args:
        kl: `"exact"`, `"molchanov"` or `"kingma"`. Defaults to `"exact"`.

    Example:
    ```python
    prior = keras_bayesdrop.priors.LogUniformPrior()
    prior.kl(mean=[0.0, 1.0], log_variance=[0.0, 0.0])  # [0.0, 0.4267]
    prior.kl_of_log_alpha([0.0])  # alpha = 1, so the same: [0.4267]
    ```

    References:
        - [Hron et al., 2017](https://arxiv.org/abs/1711.02989).
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557).
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369).
    """

    improper: ClassVar[bool] = True
    warning: ClassVar[str | None] = (
        "The log-uniform prior is improper, and so is the posterior: the "
        "result is a penalised maximum likelihood estimate, and its spread is "
        "no Bayesian uncertainty (Hron et al., 2017). Expected a proper prior "
        "if uncertainty is the aim: 'gaussian', 'student_t' or 'horseshoe'. "
        "Received: 'log_uniform'"
    )

    def __init__(self, kl: str = "exact") -> None:
        self.form = check_choice(kl, "kl", FORMS)

    def kl(self, mean: Any, log_variance: Any) -> Any:
        """Returns `KL0` for each weight, in nats, zero at `mean = 0`."""
        mean, log_variance = widened(mean, log_variance)
        return self._kl_of_ratio(ratio_to_stddev(mean, log_variance))

    def kl_of_log_alpha(self, log_alpha: Any) -> Any:
        """Returns `KL0` as a function of `alpha`, with `u = 1 / (2 alpha)`.

        It serves posteriors `N(theta, alpha * theta^2)`, and Gaussian dropout.

        Args:
            log_alpha: Floating tensor: the natural logarithms of
                `sigma^2 / mean^2`.

        Returns:
            A tensor of the same shape, in nats, in float32 or better.
        """
        (log_alpha,) = widened(log_alpha)
        largest = LARGEST_RATIO[dtype_of(log_alpha)]
        ratio = keras.ops.minimum(exp_log_stddev(-0.5 * log_alpha), largest)
        return self._kl_of_ratio(ratio)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"kl": self.form}

    def _kl_of_ratio(self, ratio: Any) -> Any:
        """Returns `KL0` for `ratio = mean / sigma = 1 / sqrt(alpha)`."""
        if self.form == "exact":
            return log_moment(ratio)
        inverse_alpha = keras.ops.square(ratio)
        if self.form == "molchanov":
            return _molchanov(inverse_alpha)
        return _kingma(inverse_alpha)


def _molchanov(inverse_alpha: Any) -> Any:
    """Returns k1 (1 - sigmoid(k2 + k3 log alpha)) + log(1 + 1 / alpha) / 2."""
    k1, k2, k3 = _MOLCHANOV
    # The bound keeps the logarithm finite at a mean of zero, where the sigmoid
    # is 1 to all digits.
    log_inverse = keras.ops.log(keras.ops.maximum(inverse_alpha, 1e-30))
    tail = keras.ops.sigmoid(k3 * log_inverse - k2)
    return k1 * tail + 0.5 * keras.ops.log1p(inverse_alpha)


def _kingma(inverse_alpha: Any) -> Any:
    """Returns c - log(alpha) / 2 - c1 alpha - c2 alpha^2 - c3 alpha^3."""
    c1, c2, c3 = _KINGMA
    inverse_alpha = keras.ops.maximum(inverse_alpha, 1.0)
    alpha = 1.0 / inverse_alpha
    cubic = alpha * (c1 + alpha * (c2 + alpha * c3))
    return _SMALL_ALPHA + 0.5 * keras.ops.log(inverse_alpha) - cubic
