# SPDX-License-Identifier: Apache-2.0
"""Objectives of training with several samples of the noise per example.

With `l_s = log p(y | x, noise_s)`, the log-likelihood under sample `s` of `S`,
the objectives are

    lower bound           1/S * sum{ l_s : s }
    importance weighted   log( 1/S * sum{ exp(l_s) : s } )
    tail-adaptive         sum{ w_s * l_s : s },  w_s held fixed

Each has the gradient `sum{ w_s * grad l_s : s }`, with the weights

    lower bound           w_s = 1 / S
    importance weighted   w_s = exp(l_s) / sum{ exp(l_k) : k }
    tail-adaptive         w_s = g_s / sum{ g_k : k },
                          g_s = S / (number of k with l_k >= l_s)
"""

import math
from typing import Any

import keras


def lower_bound(log_likelihood: Any) -> Any:
    """Returns the mean over the last axis, the samples."""
    return keras.ops.mean(log_likelihood, axis=-1)


def importance_weighted(log_likelihood: Any) -> Any:
    """Returns the log of the mean likelihood over the last axis.

    The largest likelihood is factored out before `exp`, so that no relevant
    sample underflows.
    """
    samples = log_likelihood.shape[-1]
    summed = keras.ops.logsumexp(log_likelihood, axis=-1)
    return summed - math.log(samples)


def tail_adaptive(log_likelihood: Any) -> Any:
    """Returns the mean over the last axis with weights by rank."""
    weights = keras.ops.stop_gradient(tail_adaptive_weights(log_likelihood))
    return keras.ops.sum(weights * log_likelihood, axis=-1)


def uniform_weights(log_likelihood: Any) -> Any:
    """Returns equal weights of the samples, the last axis."""
    samples = log_likelihood.shape[-1]
    return keras.ops.full_like(log_likelihood, 1.0 / samples)


def importance_weights(log_likelihood: Any) -> Any:
    """Returns weights in proportion to the likelihood.

    The largest likelihood is factored out before `exp`, so that no relevant
    sample underflows.
    """
    return keras.ops.softmax(log_likelihood, axis=-1)


def tail_adaptive_weights(log_likelihood: Any) -> Any:
    """Returns weights by the rank of the likelihood.

    Samples of equal likelihood have equal weights.
    """
    samples = log_likelihood.shape[-1]
    mine = keras.ops.expand_dims(log_likelihood, -1)  # [..., samples, 1]
    others = keras.ops.expand_dims(log_likelihood, -2)  # [..., 1, samples]
    at_least = keras.ops.cast(others >= mine, log_likelihood.dtype)
    gamma = samples / keras.ops.sum(at_least, axis=-1)
    return gamma / keras.ops.sum(gamma, axis=-1, keepdims=True)


OBJECTIVES = {
    "lower_bound": lower_bound,
    "importance_weighted": importance_weighted,
    "tail_adaptive": tail_adaptive,
}
# By the name of the objective.
SAMPLE_WEIGHTS = {
    "lower_bound": uniform_weights,
    "importance_weighted": importance_weights,
    "tail_adaptive": tail_adaptive_weights,
}
