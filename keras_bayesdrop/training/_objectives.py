# SPDX-License-Identifier: Apache-2.0
"""What to make of the likelihoods of several samples of the noise.

With `l_s = log p(y | x, noise_s)`, the likelihood under sample `s` of `S`:

    lower bound           1/S * sum{ l_s : s }
    importance weighted   log( 1/S * sum{ exp(l_s) : s } )
    tail-adaptive         sum{ w_s * l_s : s },  w_s held fixed

All three have the gradient `sum{ w_s * grad l_s : s }`, with the weights of
`losses.sample_weights`.
"""

import math
from typing import Any

import keras

from keras_bayesdrop.losses.sample_weights import tail_adaptive_weights


def lower_bound(log_likelihood: Any) -> Any:
    """Returns the mean over the last axis, the samples."""
    return keras.ops.mean(log_likelihood, axis=-1)


def importance_weighted(log_likelihood: Any) -> Any:
    """Returns the log of the mean likelihood over the last axis.

    The largest likelihood is taken out before `exp`: no sample underflows
    that matters.
    """
    samples = log_likelihood.shape[-1]
    summed = keras.ops.logsumexp(log_likelihood, axis=-1)
    return summed - math.log(samples)


def tail_adaptive(log_likelihood: Any) -> Any:
    """Returns the mean over the last axis with weights by rank."""
    weights = keras.ops.stop_gradient(tail_adaptive_weights(log_likelihood))
    return keras.ops.sum(weights * log_likelihood, axis=-1)


OBJECTIVES = {
    "lower_bound": lower_bound,
    "importance_weighted": importance_weighted,
    "tail_adaptive": tail_adaptive,
}
