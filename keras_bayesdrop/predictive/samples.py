# SPDX-License-Identifier: Apache-2.0
"""Moments of samples that are all there, one sample in float64 at a time."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_floating
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.choice import SAMPLES_PER_BLOCK
from keras_bayesdrop._core.memory import available_memory
from keras_bayesdrop._core.memory import describe_bytes
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import TooLargeError
from keras_bayesdrop.predictive.base import Quantities
from keras_bayesdrop.predictive.checks import check_variances
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantiles import quantiles_of
from keras_bayesdrop.predictive.quantities import block_variance
from keras_bayesdrop.predictive.quantities import has_block_variance
from keras_bayesdrop.predictive.select import quantities_of


def reduce_samples(
    samples: npt.ArrayLike,
    head: Head,
    quantiles: Sequence[float] | None,
    noise_samples: npt.ArrayLike | None = None,
    balanced: bool = False,
) -> dict[str, Any]:
    """Returns the fields of a prediction that follow from its samples.

    Args:
        samples: Array `[T, rows, outputs]`.
        head: The head of the output, which may be of logits.
        quantiles: Levels of quantiles to store, or `None`.
        noise_samples: Array like `samples`, of a head with learned noise.
        balanced: Whether the draws are balanced in blocks of 16 samples.
    """
    own = quantities_of(head)
    levels = check_levels(quantiles, "quantiles")
    array = as_floating(as_numbers("samples", samples))
    if array.ndim < 2 + own.class_axes or len(array) < 2:
        classes = ", classes" * own.class_axes
        raise BayesdropError(
            f"Invalid shape of argument `samples`. Expected [T, rows{classes}] "
            "or more axes, with at least 2 samples T, since the variance of "
            f"one is not defined. Received: samples.shape={array.shape}"
        )
    if own.has_learned_noise or noise_samples is not None:
        noise = _check_noise_samples(noise_samples, array, own)
    array = own.read_samples(array)
    fields: dict[str, Any] = {
        "head": head,
        **sample_moments(array, balanced),
        "samples": array,
        "vote_counts": own.count_votes(array),
    }
    if own.has_learned_noise:
        fields["noise_samples"] = noise
        fields["noise_variance"] = mean_of(noise)
    if own.has_information:
        entropy = mean_entropy(array, own)
        fields["mean_entropy"] = entropy.astype(array.dtype)
    if levels is not None:
        fields["quantile_levels"] = levels
        fields["quantile_values"] = quantiles_of(array, levels)
    return fields


def _check_noise_samples(
    noise_samples: npt.ArrayLike | None, samples: Array, own: Quantities
) -> Array:
    """Returns the variances of the noise of samples, or raises."""
    if noise_samples is None or not own.has_learned_noise:
        received = "None" if noise_samples is None else "an array"
        raise BayesdropError(
            "`noise_samples` does not fit the head. Expected an array like "
            "`samples`, of variances, for head='heteroscedastic' (for outputs "
            "with means and log variances: samples, log_variances = "
            "np.split(outputs, 2, axis=-1) and noise_samples=np.exp("
            "log_variances)), and `None` for others. Received: "
            f"noise_samples={received}, head={own.head.task!r}"
        )
    noise = as_floating(as_numbers("noise_samples", noise_samples))
    if noise.shape != samples.shape:
        raise BayesdropError(
            "Invalid shape of argument `noise_samples`. Expected that of "
            f"`samples`, {samples.shape}. Received: noise_samples.shape="
            f"{noise.shape}"
        )
    for sample in noise:
        check_variances(sample, "noise_samples")
    return noise


def mean_of(samples: Array) -> Array:
    """Returns the mean over the first axis, in the type of the samples."""
    total = np.zeros(samples.shape[1:])
    for sample in samples:
        total += sample
    return (total / len(samples)).astype(samples.dtype)


def sample_moments(samples: Array, balanced: bool = False) -> dict[str, Array]:
    """Returns the mean and the unbiased variance over the first axis.

        mean     = sum{ y[t] : t } / T
        variance = sum{ (y[t] - mean)**2 : t } / (T - 1)

    Args:
        samples: Array `[T, rows, outputs]`, in memory or memory-mapped.
        balanced: Whether the draws are balanced in blocks of 16 samples. The
            variance is then that of `block_variance`.

    Returns:
        The mean in the type of the samples; the variance, and of balanced
        draws `mean_variance`, in that type, or in float64 if the type does
        not hold it.
    """
    total = np.zeros(samples.shape[1:])
    with np.errstate(invalid="ignore"):  # infinite samples
        for sample in samples:
            total += sample
        mean = total / len(samples)
        variance, mean_variance = spread_of(samples, mean, np.square, balanced)
    moments = {
        "mean": mean.astype(samples.dtype),
        "variance": fit_type(variance, samples.dtype),
    }
    if balanced:
        # Below 0 is rounding.
        least = np.maximum(mean_variance, 0.0)
        moments["mean_variance"] = fit_type(least, samples.dtype)
    return moments


def spread_of(
    samples: Iterable[Array],
    mean: Float64Array,
    square: Callable[[Float64Array], Float64Array],
    balanced: bool,
) -> tuple[Float64Array, Float64Array]:
    """Returns the unbiased variance of samples, and that of their mean.

    Args:
        samples: Arrays like `mean`, one after another.
        mean: Their mean.
        square: Makes squares of distances, or products of two outputs each
            for their covariance.
        balanced: Whether the draws are balanced in blocks of 16 samples.
    """
    count = 0
    open_sum, all_sums = np.zeros_like(mean), np.zeros_like(mean)
    squares = square(open_sum)
    block_squares = np.zeros_like(squares) if balanced else squares
    for count, sample in enumerate(samples, 1):
        distance = sample - mean
        squares += square(distance)
        if balanced:
            open_sum += distance
            if count % SAMPLES_PER_BLOCK == 0:
                all_sums += open_sum
                block_squares += square(open_sum / SAMPLES_PER_BLOCK)
                open_sum[...] = 0.0
    if not balanced or not has_block_variance(count):
        spread = squares / (count - 1)
        return spread, spread / count
    blocks, left = divmod(count, SAMPLES_PER_BLOCK)
    middle = all_sums / (blocks * SAMPLES_PER_BLOCK)
    block_squares -= blocks * square(middle)
    apart = square(open_sum / max(left, 1) - middle)
    return block_variance(squares, block_squares, apart, count)


def covariance_of(samples: Array, mean: Array, balanced: bool) -> Array:
    """Returns the covariances of outputs, `[rows, outputs, outputs]`.

    Args:
        samples: Array `[T, rows, outputs]`, whose outputs may have axes.
        mean: Their mean.
        balanced: Whether the draws are balanced in blocks of 16 samples.
    """
    rows = len(mean)
    flat = mean.reshape(rows, -1).astype(np.float64)
    _check_room(rows, flat.shape[1], balanced)
    covariance, _ = spread_of(
        (sample.reshape(rows, -1) for sample in samples),
        flat,
        lambda distance: distance[:, :, None] * distance[:, None, :],
        balanced,
    )
    return fit_type(covariance, mean.dtype)


def _check_room(rows: int, outputs: int, balanced: bool) -> None:
    """Raises if the covariances of all rows do not fit into memory."""
    # The result and the products of one sample; more in `block_variance`.
    arrays = 10 if balanced else 2
    needed, room = arrays * rows * outputs**2 * 8, available_memory()
    if room is not None and needed > room:
        raise TooLargeError(
            "Covariances do not fit into memory. Expected fewer rows or "
            f"outputs, for at most {describe_bytes(room)}. Received: {rows} "
            f"rows of {outputs} outputs, which take {describe_bytes(needed)}"
        )


def mean_entropy(samples: Array, quantities: Quantities) -> Float64Array:
    """Returns the mean of the entropies of the samples, in nats."""
    entropy = np.zeros(())
    for sample in samples:
        entropy = entropy + quantities.entropy(sample)
    return entropy / len(samples)


def fit_type(values: Float64Array, dtype: Any) -> Array:
    """Returns float64 values in a narrower type, if it holds them all."""
    return values.astype(dtype) if holds(values, dtype).all() else values


def holds(values: Array, dtype: Any) -> npt.NDArray[np.bool_]:
    """Returns which values a floating type holds with all of its digits."""
    limits = np.finfo(dtype)
    size = np.abs(values)
    inside = (size >= limits.tiny) & (size <= limits.max)
    return np.asarray(inside | (size == 0) | ~np.isfinite(values))
