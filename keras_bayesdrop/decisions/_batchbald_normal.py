# SPDX-License-Identifier: Apache-2.0
"""Batches of measurements that tell much together, for regression.

With `C` the covariance of the outputs over the samples, and noise of variance
`1 / tau` on each measurement, both taken as normal:

    I(y[1..n]; f) = 1/2 * log(det(1 + tau * C[1..n, 1..n]))

What a row adds is `1/2 * log(1 + tau * v)`, where `v` is its variance once the
others have been measured. Outputs of a row count as independent.
"""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array


def batchbald_normal(
    centred: Float64Array, tau: float, k: int
) -> tuple[npt.NDArray[np.intp], Float64Array]:
    """Chooses rows greedily, each for what it adds to those before it.

    Args:
        centred: Array `[T, rows, outputs]` with `C` the sum over `T` of its
            products.
        tau: Precision of the noise.
        k: How many rows to choose.

    Returns:
        The rows, and the information that each adds.
    """
    variance = np.square(centred).sum(axis=0)  # [rows, outputs]
    factors: list[Float64Array] = []  # each [rows, outputs]
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(k):
        gain = 0.5 * np.log1p(tau * variance).sum(axis=1)
        gain[chosen] = -np.inf
        best = int(np.argmax(gain))
        chosen.append(best)
        gains.append(float(gain[best]))
        # One column more of the Cholesky factor of C + 1 / tau.
        covariance = np.einsum("tro,to->ro", centred, centred[:, best])
        for factor in factors:
            covariance -= factor * factor[best]
        factor = covariance / np.sqrt(variance[best] + 1.0 / tau)
        factors.append(factor)
        variance = np.maximum(variance - np.square(factor), 0.0)
    return np.asarray(chosen, np.intp), np.asarray(gains)
