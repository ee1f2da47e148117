# SPDX-License-Identifier: Apache-2.0
"""Quantities of a regression."""

import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive.base import Quantities
from keras_bayesdrop.predictive.base import need_samples
from keras_bayesdrop.predictive.base import normal_ends
from keras_bayesdrop.predictive.base import normal_quantiles
from keras_bayesdrop.predictive.base import normal_reach
from keras_bayesdrop.predictive.heads import Regression
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.labels import sum_per_row
from keras_bayesdrop.predictive.mixture import log_mean_exp
from keras_bayesdrop.predictive.mixture import mixture_quantile
from keras_bayesdrop.predictive.quantities import NUMPY
from keras_bayesdrop.predictive.quantities import Arrays
from keras_bayesdrop.predictive.quantities import Summary
from keras_bayesdrop.predictive.quantities import noise_std
from keras_bayesdrop.predictive.quantities import noise_variance

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class RegressionQuantities(Quantities):
    """Quantities of numbers with Gaussian observation noise."""

    head: Regression

    def aleatoric(self, summary: Summary, xp: Arrays = NUMPY) -> Any:
        """Variance of the observation noise."""
        noise = noise_variance(self.head.noise_precision)
        # The variance may be float64 where the mean is float32.
        return xp.full_like(summary.variance, noise)

    def normal_quantile(
        self, p: "Predictive", levels: Float64Array
    ) -> Float64Array:
        """Quantiles of the normal distribution of mean and variance."""
        return normal_quantiles(p.mean, p.std, levels)

    def interval(
        self, p: "Predictive", tails: Sequence[float]
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Ends of an interval of an observation, noise included."""
        tau = self.head.noise_precision
        if tau is None:
            return super().interval(p, tails)
        if p.samples is None:
            return self.normal_interval(p, tails[1])
        noise = noise_std(tau)
        lower, upper = (mixture_quantile(p.samples, noise, q) for q in tails)
        return lower, upper

    def normal_interval(
        self, p: "Predictive", upper_level: float
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Ends of the normal interval of an observation."""
        return normal_ends(p.mean, p.total, upper_level)

    def observation_quantile(self, p: "Predictive", q: float) -> Array:
        """Quantile of an observation, noise included, as in `interval`."""
        tau = self.head.noise_precision
        if tau is not None and p.samples is not None:
            return mixture_quantile(p.samples, noise_std(tau), q)
        if tau is None:
            with contextlib.suppress(MissingSamplesError):
                return p.quantile(q)
        return np.asarray(p.mean + normal_reach(p.total, q))

    def log_likelihood(self, p: "Predictive", y: npt.ArrayLike) -> Float64Array:
        """Log of the density of the mixture, or of a normal by moments."""
        tau = self.head.noise_precision
        if tau is None:
            raise BayesdropError(
                "Cannot compute `log_likelihood` of a regression. Expected "
                "the precision of the observation noise. Received: "
                "noise_precision=None. Use predict_with_uncertainty(..., "
                "head=Regression(noise_precision=tau))."
            )
        target = regression_targets(p.mean, y)
        if not p.stats.sampled:
            total = p.total.astype(np.float64)
            square = np.square(target - p.mean) / total
            return sum_per_row(-0.5 * (square + np.log(2 * math.pi * total)))
        samples = need_samples(p, "log_likelihood")
        square = np.empty((len(samples), len(p)))  # [T, rows]
        for row, sample in zip(square, samples, strict=True):
            row[:] = sum_per_row(np.square(target - sample))
        outputs = math.prod(p.mean.shape[1:])
        constant = outputs / 2 * (math.log(tau) - math.log(2 * math.pi))
        return log_mean_exp(-tau / 2 * square) + constant

    def distribution(self, p: "Predictive", tfd: Any) -> Any:
        """A mixture of normals, the empirical distribution, or a normal."""
        if p.samples is None:
            return tfd.Normal(p.mean, np.sqrt(p.total).astype(p.mean.dtype))
        samples = np.moveaxis(p.samples, 0, -1)  # [rows, outputs, T]
        tau = self.head.noise_precision
        if tau is None:
            return tfd.Empirical(samples)
        noise = samples.dtype.type(noise_std(tau))
        weights = np.zeros(samples.shape[-1], samples.dtype)
        return tfd.MixtureSameFamily(
            tfd.Categorical(logits=weights), tfd.Normal(samples, noise)
        )
