# SPDX-License-Identifier: Apache-2.0
"""A prediction at another temperature."""

import dataclasses

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop.calibrate._tempering import at_temperature
from keras_bayesdrop.calibrate._tempering import to_logits
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Predictive


def temper_samples(p: Predictive, h: float) -> Predictive:
    """Tempers every sample; the rest of the prediction follows."""
    if p.samples is None:
        raise MissingSamplesError(
            "Cannot temper this prediction. Expected samples, as the "
            "temperature was fitted to samples. Received: samples=None. Use "
            "predict_with_uncertainty(..., return_samples=True), or fit the "
            "temperature to predictions without samples."
        )
    samples = at_temperature(to_logits(p.samples, p.task), p.task, h)
    return dataclasses.replace(
        p,
        mean=samples.mean(axis=0, dtype=np.float64).astype(p.mean.dtype),
        variance=samples.var(axis=0, ddof=1, dtype=np.float64).astype(
            p.variance.dtype
        ),
        samples=samples.astype(p.samples.dtype),
        quantile_levels=None,
        quantile_values=None,
        mean_entropy=None,
    )


def temper_mean(p: Predictive, h: float) -> Predictive:
    """Tempers the mean, and leaves out what it does not tell."""
    old = p.mean.astype(np.float64)
    new = at_temperature(
        to_logits(p.mean, p.task).astype(np.float64), p.task, h
    )
    spread = old * (1 - old)
    slope = np.divide(
        new * (1 - new), h * spread, out=np.zeros_like(old), where=spread > 0
    )

    def carried(variance: Array) -> Array:
        # No probability of this mean varies more.
        moved = np.minimum(variance * slope**2, new * (1 - new))
        return np.asarray(moved, dtype=variance.dtype)

    sampled = p.sampled_variance
    return dataclasses.replace(
        p,
        mean=new.astype(p.mean.dtype),
        variance=carried(p.variance),
        sampled_variance=None if sampled is None else carried(sampled),
        samples=None,
        quantile_levels=None,
        quantile_values=None,
        mean_entropy=None,
    )
