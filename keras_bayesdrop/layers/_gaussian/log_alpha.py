# SPDX-License-Identifier: Apache-2.0
"""Limits of the relative noise `log alpha = log(sigma^2 / theta^2)`."""

from typing import Any

import keras

Limits = tuple[float, float]


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
