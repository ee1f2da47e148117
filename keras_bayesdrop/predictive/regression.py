# SPDX-License-Identifier: Apache-2.0
"""Quantities of numbers: of noise that is known, and that is predicted."""

import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

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
from keras_bayesdrop.predictive.heads import Heteroscedastic
from keras_bayesdrop.predictive.heads import Regression
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.labels import sum_per_row
from keras_bayesdrop.predictive.mixture import log_mean_exp
from keras_bayesdrop.predictive.mixture import mixture_log_density
from keras_bayesdrop.predictive.mixture import mixture_quantile
from keras_bayesdrop.predictive.mixture import normal_log_density
from keras_bayesdrop.predictive.quantities import NUMPY
from keras_bayesdrop.predictive.quantities import Arrays
from keras_bayesdrop.predictive.quantities import Summary
from keras_bayesdrop.predictive.quantities import noise_std
from keras_bayesdrop.predictive.quantities import noise_variance

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class NumberQuantities(Quantities):
    """Quantities of numbers with Gaussian observation noise.

    A subclass says how large the noise is.
    """

    def has_noise(self) -> bool:
        """Returns whether there is noise, and it is known."""
        raise NotImplementedError

    def noise_stds(self, p: "Predictive") -> float | Array:
        """Standard deviations of the noise, for an array of samples.

        A number, or an array that broadcasts to one sample or to all.
        """
        raise NotImplementedError

    def sample_log_density(
        self, p: "Predictive", samples: Array, target: Float64Array
    ) -> Float64Array:
        """Log of the mean density over samples of targets, in nats per row."""
        raise NotImplementedError

    def normal_quantile(
        self, p: "Predictive", levels: Float64Array
    ) -> Float64Array:
        """Quantiles of the normal distribution of mean and variance."""
        return normal_quantiles(p.mean, p.std, levels)

    def interval(
        self, p: "Predictive", tails: Sequence[float]
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Ends of an interval of an observation, noise included."""
        if not self.has_noise():
            return super().interval(p, tails)
        if p.samples is None:
            return self.normal_interval(p, tails[1])
        noise = self.noise_stds(p)
        lower, upper = (mixture_quantile(p.samples, noise, q) for q in tails)
        return lower, upper

    def normal_interval(
        self, p: "Predictive", upper_level: float
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Ends of the normal interval of an observation."""
        return normal_ends(p.mean, p.total, upper_level)

    def observation_quantile(self, p: "Predictive", q: float) -> Array:
        """Quantile of an observation, noise included, as in `interval`."""
        if self.has_noise() and p.samples is not None:
            return mixture_quantile(p.samples, self.noise_stds(p), q)
        if not self.has_noise():
            with contextlib.suppress(MissingSamplesError):
                return p.quantile(q)
        return np.asarray(p.mean + normal_reach(p.total, q))

    def log_likelihood(self, p: "Predictive", y: npt.ArrayLike) -> Float64Array:
        """Log of the density of the mixture, or of a normal by moments."""
        if not self.has_noise():
            raise BayesdropError(
                "Cannot compute `log_likelihood` of a regression. Expected "
                "the precision of the observation noise. Received: "
                "noise_precision=None. Use predict_with_uncertainty(..., "
                "head=Regression(noise_precision=tau))."
            )
        target = regression_targets(p.mean, y)
        if not p.stats.sampled:
            return normal_log_density(target, p.mean, p.total)
        samples = need_samples(p, "log_likelihood")
        return self.sample_log_density(p, samples, target)

    def distribution(self, p: "Predictive", tfd: Any) -> Any:
        """A mixture of normals, the empirical distribution, or a normal."""
        if p.samples is None:
            return tfd.Normal(p.mean, np.sqrt(p.total).astype(p.mean.dtype))
        samples = np.moveaxis(p.samples, 0, -1)  # [rows, outputs, T]
        if not self.has_noise():
            return tfd.Empirical(samples)
        stds = np.asarray(self.noise_stds(p))
        if stds.ndim:
            stds = np.moveaxis(np.broadcast_to(stds, p.samples.shape), 0, -1)
        noise = stds.astype(samples.dtype)
        weights = np.zeros(samples.shape[-1], samples.dtype)
        return tfd.MixtureSameFamily(
            tfd.Categorical(logits=weights), tfd.Normal(samples, noise)
        )


class RegressionQuantities(NumberQuantities):
    """Quantities of numbers with noise of known precision, or none."""

    head: Regression

    def has_noise(self) -> bool:
        """Returns whether the precision is known."""
        return self.head.noise_precision is not None

    def noise_stds(self, p: "Predictive") -> float | Array:
        """Standard deviation of the noise, one or one per output."""
        assert self.head.noise_precision is not None
        return noise_std(self.head.noise_precision)

    def aleatoric(self, summary: Summary, xp: Arrays = NUMPY) -> Any:
        """Variance of the observation noise."""
        noise = noise_variance(self.head.noise_precision)
        # The variance may be float64 where the mean is float32.
        return xp.full_like(summary.variance, noise)

    def check(self, p: "Predictive") -> None:
        """Raises unless precisions of several outputs fit them."""
        tau = self.head.noise_precision
        if isinstance(tau, Sequence):
            check_last_axis(len(tau), p.mean.shape)

    def sample_log_density(
        self, p: "Predictive", samples: Array, target: Float64Array
    ) -> Float64Array:
        """Log of the mean density over samples of targets, in nats per row."""
        tau = self.head.noise_precision
        if isinstance(tau, Sequence):
            noise = np.asarray(noise_variance(tau))
            variances = np.broadcast_to(noise, samples.shape)
            return mixture_log_density(target, samples, variances)
        assert tau is not None
        square = np.empty((len(samples), len(p)))  # [T, rows]
        for row, sample in zip(square, samples, strict=True):
            row[:] = sum_per_row(np.square(target - sample))
        outputs = math.prod(p.mean.shape[1:])
        constant = outputs / 2 * (math.log(tau) - math.log(2 * math.pi))
        return log_mean_exp(-tau / 2 * square) + constant


class HeteroscedasticQuantities(NumberQuantities):
    """Quantities of numbers with noise that the model predicts."""

    head: Heteroscedastic
    has_learned_noise: ClassVar[bool] = True

    def has_noise(self) -> bool:
        """Returns `True`."""
        return True

    def noise_stds(self, p: "Predictive") -> Array:
        """Standard deviation of the noise of every sample."""
        return np.sqrt(need_noise_samples(p))

    def aleatoric(self, summary: Summary, xp: Arrays = NUMPY) -> Any:
        """Mean over the samples of the variance of the noise."""
        return summary.noise_variance

    def sample_log_density(
        self, p: "Predictive", samples: Array, target: Float64Array
    ) -> Float64Array:
        """Log of the mean density over samples of targets, in nats per row."""
        return mixture_log_density(target, samples, need_noise_samples(p))


def need_noise_samples(p: "Predictive") -> Array:
    """Returns the variances of the noise that are kept beside samples."""
    assert p.noise_samples is not None  # `checks` saw them both.
    return p.noise_samples


def check_last_axis(count: int, shape: Sequence[int | None]) -> None:
    """Raises unless the last axis of an output has as many entries.

    Args:
        count: Number of noise precisions.
        shape: Shape `[rows, ...]` of the output; `None` for what is not known.
    """
    if len(shape) < 2 or shape[-1] not in (count, None):
        raise BayesdropError(
            "`noise_precision` does not fit the output. Expected one float, "
            "or one for each entry of the last axis of an output of shape "
            f"{tuple(shape)}. Received: {count} precisions"
        )
