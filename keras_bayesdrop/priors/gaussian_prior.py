# SPDX-License-Identifier: Apache-2.0
"""The Gaussian prior of weights."""

import math
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.priors._numerics import widened
from keras_bayesdrop.priors.base import WeightPrior


@export("keras_bayesdrop.priors.GaussianPrior")
class GaussianPrior(WeightPrior):
    """The prior `w ~ N(0, stddev^2)`.

        KL = (mean^2 / stddev^2 + e^d - d - 1) / 2,
        d = log(sigma^2 / stddev^2)

    Args:
        stddev: Positive float. Prior standard deviation of a weight. Defaults
            to `1.0`.

    Example:
    ```python
    prior = keras_bayesdrop.priors.GaussianPrior(stddev=0.5)
    prior.kl(mean=[0.5], log_variance=[math.log(0.25)])  # [0.5]
    ```
    """

    def __init__(self, stddev: float = 1.0) -> None:
        self.stddev = check_positive(stddev, "stddev")

    def kl(self, mean: Any, log_variance: Any) -> Any:
        """Returns the KL divergence for each weight, in nats."""
        mean, log_variance = widened(mean, log_variance)
        log_ratio = log_variance - 2.0 * math.log(self.stddev)
        spread = keras.ops.expm1(log_ratio) - log_ratio
        return 0.5 * (keras.ops.square(mean * (1.0 / self.stddev)) + spread)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"stddev": self.stddev}
