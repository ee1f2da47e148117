# SPDX-License-Identifier: Apache-2.0
"""Log variances that a network predicts, clipped so that `exp` is finite."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.errors import BayesdropError


def clip_log_variance(raw: Any, limit: float) -> Any:
    """Returns the clipped value, with the gradient of the raw output."""
    clipped = keras.ops.clip(raw, -limit, limit)
    # The second term is zero.
    return keras.ops.stop_gradient(clipped) + (
        raw - keras.ops.stop_gradient(raw)
    )


def check_limit(limit: Any) -> float:
    """Returns the limit if `exp` of it is finite in float32."""
    checked = check_positive(limit, "log_variance_limit")
    if checked > 80.0:
        raise BayesdropError(
            "Invalid value for argument `log_variance_limit`. Expected a "
            "float in (0, 80], as exp(80) is finite in float32. Received: "
            f"log_variance_limit={limit!r}"
        )
    return checked
