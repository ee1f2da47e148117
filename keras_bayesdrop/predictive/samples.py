# SPDX-License-Identifier: Apache-2.0
"""Moments of samples that are all there, one sample in float64 at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_floating
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive.base import Quantities
from keras_bayesdrop.predictive.checks import check_variances
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantiles import quantiles_of
from keras_bayesdrop.predictive.select import quantities_of


def reduce_samples(
    samples: npt.ArrayLike,
    head: Head,
    quantiles: Sequence[float] | None,
    noise_samples: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """Returns the fields of a prediction that follow from its samples.

    Args:
        samples: Array `[T, rows, outputs]`.
        head: The head of the output, which may be of logits.
        quantiles: Levels of quantiles to store, or `None`.
        noise_samples: Array like `samples`, of a head with learned noise.
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
    mean, variance = mean_and_variance(array)
    fields = {
        "head": head,
        "mean": mean,
        "variance": variance,
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


def mean_and_variance(samples: Array) -> tuple[Array, Array]:
    """Returns the mean and the unbiased variance over the first axis.

        mean     = sum{ y[t] : t } / T
        variance = sum{ (y[t] - mean)**2 : t } / (T - 1)

    Args:
        samples: Array `[T, rows, outputs]`, in memory or memory-mapped.

    Returns:
        The mean in the type of the samples; the variance in that type, or in
        float64 if the type does not hold it.
    """
    total = np.zeros(samples.shape[1:])
    squares = np.zeros_like(total)
    with np.errstate(invalid="ignore"):  # infinite samples
        for sample in samples:
            total += sample
        mean = total / len(samples)
        for sample in samples:
            squares += np.square(sample - mean)
    variance = squares / (len(samples) - 1)
    return mean.astype(samples.dtype), fit_type(variance, samples.dtype)


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
