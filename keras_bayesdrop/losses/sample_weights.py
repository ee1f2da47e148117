# SPDX-License-Identifier: Apache-2.0
"""What each of several samples of the noise weighs in a gradient.

With `l_s = log p(y | x, noise_s)`, the likelihood under sample `s` of `S`, all
objectives of training have the gradient `sum{ w_s * grad l_s : s }`, and

    lower bound           w_s = 1 / S
    importance weighted   w_s = exp(l_s) / sum{ exp(l_k) : k }
    tail-adaptive         w_s = g_s / sum{ g_k : k },
                          g_s = S / (how many k have l_k >= l_s)
"""

from typing import Any

import keras


def uniform_weights(log_likelihood: Any) -> Any:
    """Returns equal weights of the samples, the last axis."""
    samples = log_likelihood.shape[-1]
    return keras.ops.full_like(log_likelihood, 1.0 / samples)


def importance_weights(log_likelihood: Any) -> Any:
    """Returns weights in proportion to the likelihood.

    The largest likelihood is taken out before `exp`: no sample underflows
    that matters.
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


# By the name of the objective.
SAMPLE_WEIGHTS = {
    "lower_bound": uniform_weights,
    "importance_weighted": importance_weights,
    "tail_adaptive": tail_adaptive_weights,
}
