# SPDX-License-Identifier: Apache-2.0
"""Observation noise of a prediction: known or not, learned, in each sample."""

from typing import TYPE_CHECKING

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


def knows_noise(p: "Predictive") -> bool:
    """Returns whether the noise of an observation is known, or learned."""
    return learns_noise(p) or p.noise_precision is not None


def learns_noise(p: "Predictive") -> bool:
    """Returns whether the model predicts the noise."""
    return p.noise_variance is not None


def sample_precision(p: "Predictive", sample: int) -> Float64Array:
    """Returns the precision of the observation noise in one sample.

    Args:
        p: Prediction with samples, whose noise is known or learned.
        sample: Number of the sample.

    Returns:
        Array that broadcasts to `[rows, outputs]`.
    """
    if p.noise_samples is None:
        return np.asarray(p.noise_precision, np.float64)
    return np.asarray(1.0 / p.noise_samples[sample].astype(np.float64))
