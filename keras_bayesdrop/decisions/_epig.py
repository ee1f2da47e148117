# SPDX-License-Identifier: Apache-2.0
"""What a label would tell about the predictions that matter."""

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.predictive.quantities import x_log_x

# Numbers in the largest array: 32 MB.
_BLOCK = 2**22


def epig_classes(pool: Float64Array, targets: Float64Array) -> Float64Array:
    """Mean information between the label of a row and those of targets.

        p(y, y') = mean{ p[t, i, y] * p[t, j, y'] : t }
        EPIG[i]  = mean{ sum{ p(y, y') * log(p(y, y') / (p(y) * p(y')))
                              : y, y' } : j }

    Args:
        pool: Probabilities `[T, rows, classes]`.
        targets: Probabilities `[T, targets, classes]`.

    Returns:
        Array `[rows]`, in nats.
    """
    samples, rows, classes = pool.shape
    there = targets.reshape(samples, -1)
    # Entropies of single labels, and of pairs: I = H + H' - H(joint).
    single = -x_log_x(pool.mean(axis=0)).sum(axis=-1)  # [rows]
    other = -x_log_x(targets.mean(axis=0)).sum(axis=-1).mean()
    result = np.empty(rows)
    size = max(1, _BLOCK // (classes * there.shape[1]))
    for begin in range(0, rows, size):
        here = pool[:, begin : begin + size].reshape(samples, -1)
        pairs = -x_log_x(here.T @ there / samples).sum(axis=1)
        joint = pairs.reshape(-1, classes).sum(axis=1) / targets.shape[1]
        some = slice(begin, begin + size)
        result[some] = single[some] + other - joint
    return np.maximum(result, 0.0)


def epig_normal(
    pool: Float64Array, targets: Float64Array, tau: float
) -> Float64Array:
    """The same for measurements, taken as normal.

        EPIG[i] = mean{ -1/2 * log(1 - r[i, j]**2) : j }

    with `r` the correlation of the two measurements, their noise included.
    Outputs count as independent, and are summed over.

    Args:
        pool: Centred outputs `[T, rows, outputs]`.
        targets: Centred outputs `[T, targets, outputs]`.
        tau: Precision of the noise.

    Returns:
        Array `[rows]`, in nats.
    """
    result = np.zeros(pool.shape[1])
    size = max(1, _BLOCK // targets.shape[1])
    for output in range(pool.shape[2]):
        here, there = pool[..., output], targets[..., output]
        above = np.square(there).sum(axis=0) + 1.0 / tau  # [targets]
        for begin in range(0, len(result), size):
            some = here[:, begin : begin + size]
            own = np.square(some).sum(axis=0) + 1.0 / tau
            square = np.square(some.T @ there) / (own[:, None] * above)
            gain = -0.5 * np.log1p(-square)
            result[begin : begin + size] += gain.mean(axis=1)
    return result
