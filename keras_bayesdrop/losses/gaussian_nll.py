# SPDX-License-Identifier: Apache-2.0
"""The squared error as a likelihood: Gaussian noise of known precision."""

import math
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.losses._likelihood_loss import LikelihoodLoss
from keras_bayesdrop.losses._likelihood_loss import check_same_shape


@export("keras_bayesdrop.losses.GaussianNLL")
class GaussianNLL(LikelihoodLoss):
    """Negative log-likelihood of Gaussian noise with a known precision.

        -log p(y | f) = sum{ tau * (y_d - f_d)^2 - log(tau) : d } / 2
                        + D / 2 * log(2 * pi)

    for an example with the targets `y_1 ... y_D` and the outputs `f_1 ... f_D`,
    in nats. The loss is the mean over the examples, so that `likelihood="nll"`
    is its unit in `DropoutL2` and in layers with a KL divergence.

    Up to a constant it is `tau * D / 2` times Keras' mean squared error, with
    the same minimum. But only a normalised likelihood can be averaged over
    samples of the noise, or compared between values of `tau`.

    Targets are never broadcast: targets `[rows]` become `[rows, 1]`.

    Args:
        noise_precision: Positive float. Inverse variance `tau` of the
            observation noise, in the units of the targets that the loss sees.
        reduction: As in `keras.losses.Loss`. Defaults to
            `"sum_over_batch_size"`, the mean over the examples.
        name: Name of the loss. Defaults to `"gaussian_nll"`.
        dtype: Dtype to compute in, at least float32.

    Example:
    ```python
    loss = keras_bayesdrop.losses.GaussianNLL(noise_precision=4.0)
    model.compile("adam", loss)
    loss.log_prob([[1.0]], [[0.5]])  # [-0.7258], scale 1 / sqrt(4)
    ```
    """

    def __init__(
        self,
        noise_precision: float,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "gaussian_nll",
        dtype: Any = None,
    ) -> None:
        self.noise_precision = check_positive(
            noise_precision, "noise_precision"
        )
        super().__init__(reduction, name, dtype)

    def _log_density(self, y_true: Any, y_pred: Any) -> Any:
        check_same_shape(y_true, y_pred, "an output for every target")
        constant = 0.5 * math.log(self.noise_precision / (2.0 * math.pi))
        # The root is applied before the square, so that neither overflows.
        scaled = math.sqrt(self.noise_precision) * (y_true - y_pred)
        return constant - 0.5 * keras.ops.square(scaled)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "noise_precision": self.noise_precision,
            "dtype": self.dtype,
        }
