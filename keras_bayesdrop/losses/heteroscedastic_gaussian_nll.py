# SPDX-License-Identifier: Apache-2.0
"""The likelihood of Gaussian noise whose variance is a network output."""

import math
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses._likelihood_loss import LikelihoodLoss
from keras_bayesdrop.losses._likelihood_loss import check_same_shape
from keras_bayesdrop.losses._log_variance import check_limit
from keras_bayesdrop.losses._log_variance import clip_log_variance


@export("keras_bayesdrop.losses.HeteroscedasticGaussianNLL")
class HeteroscedasticGaussianNLL(LikelihoodLoss):
    """Negative log-likelihood of Gaussian noise with a learned variance.

    Of the `2 * D` outputs for `D` targets, the first half are the means `m`
    and the second half the log variances `s`:

        -log p(y | m, s) = sum{ (y_d - m_d)^2 * exp(-s_d) + s_d : d } / 2
                           + D / 2 * log(2 * pi)

    in nats. The mean over the examples is the loss.

    With learned variances the gradient of a mean is divided by the variance.
    A region that is hard at first gets a large variance, counts little from
    then on, and may never be learned. With `beta` every term is multiplied by
    a weight that has no gradient:

        loss = -sum{ w_d * log p(y_d | m_d, s_d) : d },    w_d = exp(s_d)^beta

    `beta=1` gives means the gradient of a squared error, `beta=0.5` is a
    compromise. The minimum of a flexible network is the same, but the loss is
    no log-likelihood any more, and has no nats: KL penalties, which count in
    nats (`likelihood="nll"`), would have a weight that changes from row to
    row, so use them with `beta=0`; `training.MonteCarloModel` refuses such a
    loss. `log_prob` is the log density in nats for any `beta`.

    Log variances are clipped to `[-limit, limit]`, so that `exp` cannot
    overflow. Gradients pass the clip unchanged: the data still pull back an
    output beyond the limit. With the default of 20, standard deviations lie
    between 4.5e-5 and 2.2e4; rescale targets that need others.

    Args:
        log_variance_limit: Positive float, at most 80. The `limit` above.
            Defaults to `20.0`.
        beta: Float in `[0, 1]`, the exponent of the weights. Defaults to
            `0.0`: the negative log-likelihood.
        reduction: As in `keras.losses.Loss`. Defaults to
            `"sum_over_batch_size"`, the mean over the examples.
        name: Name of the loss. Defaults to `"heteroscedastic_gaussian_nll"`.
        dtype: Dtype to compute in, at least float32.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(50, activation="relu"),
        keras_bayesdrop.layers.MCDropout(0.1),
        keras.layers.Dense(2),  # mean and log variance of one target
    ])
    loss = keras_bayesdrop.losses.HeteroscedasticGaussianNLL(beta=0.5)
    model.compile("adam", loss)
    ```

    `predict_with_uncertainty(..., head="heteroscedastic")` reads the outputs
    of such a model.

    References:
        - [Nix and Weigend, 1994](https://doi.org/10.1109/ICNN.1994.374138).
        - [Kendall and Gal, 2017](https://arxiv.org/abs/1703.04977).
        - [Seitzer et al., 2022](https://arxiv.org/abs/2203.09168).
    """

    def __init__(
        self,
        log_variance_limit: float = 20.0,
        beta: float = 0.0,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "heteroscedastic_gaussian_nll",
        dtype: Any = None,
    ) -> None:
        self.log_variance_limit = check_limit(log_variance_limit)
        self.beta = check_rate(beta, "beta")
        super().__init__(reduction, name, dtype)

    @property
    def in_nats(self) -> bool:
        """True if the loss is minus `log_prob`, in nats."""
        return not self.beta

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns minus the weighted log density, one number per example."""
        if not self.beta:
            return super().call(y_true, y_pred)
        y_true, y_pred = self._aligned(y_true, y_pred)
        density = self._log_density(y_true, y_pred)
        limit = self.log_variance_limit
        _, raw = keras.ops.split(keras.ops.stop_gradient(y_pred), 2, axis=-1)
        weight = keras.ops.exp(self.beta * keras.ops.clip(raw, -limit, limit))
        return -keras.ops.sum(weight * density, axis=-1)

    def _log_density(self, y_true: Any, y_pred: Any) -> Any:
        width = y_pred.shape[-1]
        if width is None or width % 2:
            raise BayesdropError(
                "Outputs cannot be split into means and log variances. "
                "Expected an even number of outputs on the last axis. "
                f"Received: y_pred.shape={tuple(y_pred.shape)}"
            )
        mean, raw = keras.ops.split(y_pred, 2, axis=-1)
        check_same_shape(y_true, mean, "two outputs for every target")
        log_variance = clip_log_variance(raw, self.log_variance_limit)
        # Half the exponent is applied before the square: exp(-s) may be huge.
        scaled = (y_true - mean) * keras.ops.exp(-0.5 * log_variance)
        return -0.5 * (
            math.log(2.0 * math.pi) + log_variance + keras.ops.square(scaled)
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "log_variance_limit": self.log_variance_limit,
            "beta": self.beta,
            "dtype": self.dtype,
        }
