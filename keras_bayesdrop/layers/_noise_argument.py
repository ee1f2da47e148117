# SPDX-License-Identifier: Apache-2.0
"""The arguments `rate` and `noise` of a layer, and draws for training."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop.layers._uniform import uniform
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import get

# Half a step of the uniform numbers, by their dtype: what moves them from
# [0, 1) into (0, 1), where every quantile is finite.
_HALF_STEP = {"float32": 2.0**-24, "float64": 2.0**-53}


def check_noise(
    rate: Any, noise: Any
) -> tuple[float | None, str | Multiplicative]:
    """Returns the two arguments as a layer keeps them.

    Args:
        rate: Float, or `None` for noise without a rate.
        noise: Name, instance or config of a family.

    Returns:
        A rate and a name, for noise with a rate; else `None` and the noise.
    """
    found = get(noise, rate)
    kept = getattr(found, "rate", None)
    return kept, found if kept is None else found.kind


def noise_config(noise: str | Multiplicative) -> Any:
    """Returns the argument `noise` as a config holds it."""
    if isinstance(noise, str):
        return noise
    return keras.saving.serialize_keras_object(noise)


def draw_factor(
    noise: Multiplicative, sizes: Sequence[Any], seed: Any, dtype: str
) -> Any:
    """Draws noise for training, divided by its normalizer.

    Args:
        noise: The family.
        sizes: Shape, of ints and scalar tensors.
        seed: The `keras.random.SeedGenerator` to draw from.
        dtype: `"float32"` or `"float64"`.

    Returns:
        A tensor.
    """
    return noise.factor(uniform(sizes, dtype, seed) + _HALF_STEP[dtype])
