# SPDX-License-Identifier: Apache-2.0
"""What a nat of KL divergence weighs in a loss of Keras.

The evidence lower bound counts in nats, summed over the training examples:

    -ELBO = sum{ -log p(y | x, W) } + KL

Keras adds penalties to the mean loss of a batch, whose unit may be another:
the squared error is `2 / tau` times a log-likelihood of precision `tau`.
"""

from typing import Any

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid

# Squared errors in a unit of loss: log p(y) = -tau / 2 * (y - f)^2 + constant.
TIMES_TAU = {"mse": 2.0, "half_mse": 1.0}
LOSSES = (*TIMES_TAU, "nll")


def check_noise_precision(noise_precision: Any, loss: str) -> float | None:
    """Returns the precision if the loss needs one, and `None` if not."""
    if loss != "nll":
        return check_positive(noise_precision, "noise_precision")
    if noise_precision is not None:
        raise invalid(
            "noise_precision", noise_precision, "`None` with loss='nll'"
        )
    return None


def loss_per_nat(
    loss: str,
    noise_precision: float | None,
    num_train_examples: int,
    num_outputs: int,
) -> float:
    """Returns what a nat of KL adds to the loss.

        c / (N * D),    c = 2 / tau, 1 / tau, 1 for "mse", "half_mse", "nll"

    Args:
        loss: One of `LOSSES`.
        noise_precision: `tau`, or `None` for `"nll"`.
        num_train_examples: `N`.
        num_outputs: `D`, values per example that the loss averages over.

    Returns:
        The factor.
    """
    factor = 1.0
    if noise_precision is not None:
        factor = TIMES_TAU[loss] / noise_precision
    return factor / (num_train_examples * num_outputs)
