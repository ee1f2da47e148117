# SPDX-License-Identifier: Apache-2.0
"""What `Predictive` derives from its moments, as TensorFlow.

Each quantity is computed in float64 from rounded moments and rounded once more,
as `Predictive` does it: `tests/serving` holds the two against each other.
"""

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Statistics:
    """One output of the model, reduced over all samples.

    Attributes:
        task: `"regression"`, `"classification"` or `"binary"`.
        num_samples: How many samples there were.
        mean: Tensor [rows, ...].
        variance: Tensor [rows, ...], unbiased, of the type of `mean`.
        std: Its root, right where that type does not hold the variance.
        entropies: For classes, the sum of the entropies, float64; or `None`.
        votes: For classes, how often each was the likeliest; or `None`.
        noise_precision: For a regression, or `None`.
    """

    task: str
    num_samples: int
    mean: tf.Tensor
    variance: tf.Tensor
    std: tf.Tensor
    entropies: Any
    votes: Any
    noise_precision: float | None


def statistics_of(
    state: Sequence[tf.Tensor],
    task: str,
    num_samples: int,
    noise_precision: float | None,
) -> Statistics:
    """Reads the state that `_accumulate` leaves."""
    _, shift, mean, m2, *sums = state
    entropies, votes = sums or (None, None)
    exact = _wide(shift) + _wide(mean)
    variance = tf.cast(m2, shift.dtype) / (num_samples - 1)
    # As `_accumulate.finish` does it: float32 where it holds the variance.
    wide = _wide(m2) / (num_samples - 1)
    smallest = float(np.finfo(shift.dtype.as_numpy_dtype).tiny)
    held = (variance >= smallest) & (variance < math.inf)
    return Statistics(
        task,
        num_samples,
        tf.cast(exact, shift.dtype),
        variance,
        tf.where(held, tf.sqrt(variance), tf.cast(tf.sqrt(wide), shift.dtype)),
        entropies,
        votes,
        noise_precision if task == "regression" else None,
    )


def quantiles_of(samples: tf.Tensor, levels: Sequence[float]) -> tf.Tensor:
    """Returns quantiles of samples, linearly interpolated.

    Args:
        samples: Tensor [samples, rows, ...].
        levels: Floats in `[0, 1]`.

    Returns:
        Tensor [rows, levels, ...].
    """
    ordered = tf.sort(samples, axis=0)
    last = tf.shape(samples)[0] - 1
    made = []
    for level in levels:
        place = level * tf.cast(last, tf.float64)
        below = tf.cast(tf.floor(place), tf.int32)
        share = tf.cast(place - tf.floor(place), samples.dtype)
        low, high = ordered[below], ordered[tf.minimum(below + 1, last)]
        made.append(low + share * (high - low))
    return tf.stack(made, axis=1)


def _mean(s: Statistics) -> tf.Tensor:
    return s.mean


def _variance(s: Statistics) -> tf.Tensor:
    return s.variance


def _std(s: Statistics) -> tf.Tensor:
    return s.std


def _mc_error(s: Statistics) -> tf.Tensor:
    return _std(s) / math.sqrt(s.num_samples)


def _aleatoric(s: Statistics) -> tf.Tensor:
    if s.task == "regression":
        tau = s.noise_precision
        noise = 0.0 if tau is None else 1.0 / tau
        return tf.fill(tf.shape(s.mean), tf.cast(noise, s.mean.dtype))
    mean = _wide(s.mean)
    share = (s.num_samples - 1) / s.num_samples
    square = _wide(s.variance) * share + mean * mean
    return tf.cast(tf.maximum(mean - square, 0.0), s.mean.dtype)


def _total(s: Statistics) -> tf.Tensor:
    return s.variance + _aleatoric(s)


def _whole_entropy(s: Statistics) -> tf.Tensor:
    p = tf.clip_by_value(_wide(s.mean), 0.0, 1.0)
    if s.task == "binary":
        return -(tf.math.xlogy(p, p) + tf.math.xlogy(1.0 - p, 1.0 - p))
    return -tf.reduce_sum(tf.math.xlogy(p, p), axis=-1)


def _sampled_entropy(s: Statistics) -> tf.Tensor:
    mean = s.entropies / s.num_samples
    return _wide(tf.cast(mean, s.mean.dtype))


def _predictive_entropy(s: Statistics) -> tf.Tensor:
    return tf.cast(_whole_entropy(s), s.mean.dtype)


def _expected_entropy(s: Statistics) -> tf.Tensor:
    return tf.cast(_sampled_entropy(s), s.mean.dtype)


def _mutual_information(s: Statistics) -> tf.Tensor:
    information = _whole_entropy(s) - _sampled_entropy(s)
    return tf.cast(tf.maximum(information, 0.0), s.mean.dtype)


def _variation_ratio(s: Statistics) -> tf.Tensor:
    votes = _wide(s.votes)
    if s.task == "binary":
        favourite = tf.maximum(votes, s.num_samples - votes)
    else:
        favourite = tf.reduce_max(votes, axis=-1)
    return tf.cast(1.0 - favourite / s.num_samples, s.mean.dtype)


def _wide(x: Any) -> tf.Tensor:
    return tf.cast(x, tf.float64)


# By the names that `Predictive` has for them.
QUANTITIES: dict[str, Callable[[Statistics], tf.Tensor]] = {
    "mean": _mean,
    "variance": _variance,
    "std": _std,
    "mc_error": _mc_error,
    "epistemic": _variance,
    "aleatoric": _aleatoric,
    "total": _total,
    "predictive_entropy": _predictive_entropy,
    "entropy": _predictive_entropy,
    "expected_entropy": _expected_entropy,
    "mutual_information": _mutual_information,
    "variation_ratio": _variation_ratio,
}
# Those that only probabilities have.
OF_CLASSES = (
    "predictive_entropy",
    "entropy",
    "expected_entropy",
    "mutual_information",
    "variation_ratio",
)


def is_defined(quantity: str, task: str) -> bool:
    """Whether an output of a task has a quantity."""
    return task != "regression" or quantity not in OF_CLASSES
