# SPDX-License-Identifier: Apache-2.0
"""Noise on the inputs of a layer: its arguments, draws and application."""

import math
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._random import uniform
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
    family = get(noise, rate)
    own_rate = getattr(family, "rate", None)
    return own_rate, family if own_rate is None else family.kind


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


def noise_sizes(
    inputs: Any, noise_shape: tuple[int | None, ...] | None
) -> tuple[Any, ...]:
    """Returns the shape of the noise for `inputs`.

    Args:
        inputs: Tensor to which the noise is applied.
        noise_shape: A size or `None` for each axis of `inputs`; `None` for
            the shape of the inputs themselves.

    Returns:
        A tuple of ints, and of scalar tensors for sizes not known yet.
    """
    sizes: tuple[Any, ...] = keras.ops.shape(inputs)
    if noise_shape is None:
        return sizes
    fits = len(noise_shape) == len(sizes) and all(
        wanted in (None, 1, known) or known is None
        for wanted, known in zip(noise_shape, inputs.shape, strict=True)
    )
    if not fits:
        raise BayesdropError(
            "Argument `noise_shape` does not fit the inputs. Expected, for "
            "each axis of the inputs, 1, `None` or the size of that axis. "
            f"Received: noise_shape={noise_shape}, "
            f"inputs.shape={tuple(inputs.shape)}"
        )
    return tuple(
        size if wanted is None else wanted
        for wanted, size in zip(noise_shape, sizes, strict=True)
    )


def apply_noise(
    inputs: Any,
    *,
    rate: Any,
    noise: str | Multiplicative,
    sizes: Sequence[Any],
    seed: Any,
    dtype: str,
) -> Any:
    """Applies fresh noise to `inputs`, in float32 or better.

    Args:
        inputs: Tensor.
        rate: Above zero, or `None` if the noise has none.
        noise: `"bernoulli"`, `"gaussian"`, or noise of another family.
        sizes: Shape of the noise, which broadcasts against `inputs`.
        seed: The `keras.random.SeedGenerator` to draw from.
        dtype: Dtype of the result.

    Returns:
        A tensor in the shape of `inputs`.
    """
    if isinstance(noise, str):
        apply = drop if noise == "bernoulli" else perturb
        return apply(inputs, rate, sizes, seed, dtype)
    wide = keras.backend.result_type(dtype, "float32")
    factor = draw_factor(noise, sizes, seed, wide)
    return keras.ops.cast(keras.ops.cast(inputs, wide) * factor, dtype)


def drop(
    inputs: Any, rate: float, sizes: Sequence[Any], seed: Any, dtype: str
) -> Any:
    """Zeroes units with probability `rate` and rescales those it keeps.

    Args:
        inputs: Tensor.
        rate: Probability of dropping, above zero.
        sizes: Shape of the mask, which broadcasts against `inputs`.
        seed: The `keras.random.SeedGenerator` to draw from.
        dtype: Dtype of the result.

    Returns:
        A tensor in the shape of `inputs`.
    """
    if rate == 1:
        return keras.ops.zeros_like(inputs, dtype=dtype)
    wide = keras.backend.result_type(dtype, "float32")
    keep = keras.random.uniform(sizes, dtype=wide, seed=seed) >= rate
    scaled = keras.ops.cast(inputs, wide) * (1.0 / (1.0 - rate))
    # Not a product with the mask: a dropped infinity is zero, not NaN.
    return keras.ops.cast(keras.ops.where(keep, scaled, 0.0), dtype)


def perturb(
    inputs: Any, rate: float, sizes: Sequence[Any], seed: Any, dtype: str
) -> Any:
    """Multiplies `inputs` by Gaussian noise N(1, rate / (1 - rate)).

    Args:
        inputs: Tensor.
        rate: Rate of the dropout with the same variance, below one.
        sizes: Shape of the noise, which broadcasts against `inputs`.
        seed: The `keras.random.SeedGenerator` to draw from.
        dtype: Dtype of the result.

    Returns:
        A tensor in the shape of `inputs`.
    """
    wide = keras.backend.result_type(dtype, "float32")
    noise = keras.random.normal(
        sizes,
        mean=1.0,
        stddev=math.sqrt(rate / (1.0 - rate)),
        dtype=wide,
        seed=seed,
    )
    return keras.ops.cast(keras.ops.cast(inputs, wide) * noise, dtype)
