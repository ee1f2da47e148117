# SPDX-License-Identifier: Apache-2.0
"""CRPS for several outputs together."""

import math

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop.metrics._inputs import Prediction
from keras_bayesdrop.metrics._regression import sample_array
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets


def energy_score(
    prediction: Prediction, targets: npt.ArrayLike, seed: int = 0
) -> float:
    """Energy score of the outputs of a row together, mean over the rows.

        ES = E||X - y|| - E||X - X'|| / 2

    for independent draws `X`, `X'` of the predictive. From samples `x[t]`, by
    the fair estimator, right on average for every `T`:

        sum{ ||x[t] - y|| : t } / T
            - sum{ ||x[s] - x[t]|| : s, t } / (2 * T * (T - 1))

    The norm is Euclidean, over all outputs of a row: scale outputs of
    different units before. For one output it is the `crps`; for several it
    also sees whether they go up and down together. With `noise_precision` tau
    every sample gets one draw of noise of variance `1 / tau`, and is then a
    draw of the predictive. Time grows with `T**2`.

    Args:
        prediction: `Predictive` of a regression with samples, or samples
            `[T, rows, outputs]`.
        targets: Array `[rows, outputs]`.
        seed: Int, at least 0, of the noise. Not used without
            `noise_precision`.

    Returns:
        Float, in the unit of the targets; less is better.

    Example:
        >>> energy_score([[[0.0, 0.0]], [[0.0, 2.0]]], [[0.0, 1.0]])
        0.0

    References:
        - [Gneiting and Raftery, 2007](https://doi.org/10.1198/016214506000001437),
          section 4.3.
    """
    seed = check_int(seed, "seed", at_least=0)
    samples = sample_array(prediction).astype(np.float64)
    y = regression_targets(samples[0], targets)
    if isinstance(prediction, Predictive) and prediction.noise_precision:
        noise = np.random.default_rng(seed).standard_normal(samples.shape)
        samples += noise / math.sqrt(prediction.noise_precision)
    flat = samples.reshape(*samples.shape[:2], -1)  # [T, rows, outputs]
    error = np.linalg.norm(flat - y.reshape(flat.shape[1:]), axis=-1)
    gaps = 0.0
    for t in range(1, len(flat)):
        gap = np.linalg.norm(flat[:t] - flat[t], axis=-1)  # [t, rows]
        gaps += float(np.mean(np.sum(gap, axis=0)))
    return float(np.mean(error)) - gaps / (len(flat) * (len(flat) - 1))
