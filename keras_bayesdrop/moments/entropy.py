# SPDX-License-Identifier: Apache-2.0
"""Mean entropy of random probabilities, from their moments."""

import tensorflow as tf

# Smallest variance, as a share of `mean * (1 - mean)`. In float64 smaller ones
# do not change the entropy.
_MIN_VARIANCE = 1e-12


def mean_entropy(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Returns E sum{ -p[k] log p[k] : k }, in nats.

    Each probability is modelled by a Beta distribution of the same mean and
    variance. With the digamma function `psi`

        E -p log p = m (psi(n + 1) - psi(n m + 1)),  n = m (1 - m) / Var p - 1

    Without variance that is the entropy of the means. It is zero where each
    probability is 0 or 1.

    Args:
        mean: Tensor [..., classes].
        variance: Tensor like `mean`, at most `mean * (1 - mean)`.

    Returns:
        Tensor [...].
    """
    # In float64, since mutual information is often a small difference from the
    # entropy of the means.
    m, v = tf.cast(mean, tf.float64), tf.cast(variance, tf.float64)
    m = tf.clip_by_value(m, 0.0, 1.0)
    most = m * (1.0 - m)
    n = tf.maximum(
        tf.math.divide_no_nan(most, tf.maximum(v, _MIN_VARIANCE * most)) - 1.0,
        0.0,
    )
    parts = m * (tf.math.digamma(n + 1.0) - tf.math.digamma(n * m + 1.0))
    return tf.cast(tf.reduce_sum(parts, axis=-1), mean.dtype)
