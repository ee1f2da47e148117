# SPDX-License-Identifier: Apache-2.0
"""Quantities that follow from the fields of a `Predictive`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import cast

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import quantities
from keras_bayesdrop.predictive.base import Quantities
from keras_bayesdrop.predictive.base import need_samples
from keras_bayesdrop.predictive.base import stored_quantile
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantiles import check_quantile_levels
from keras_bayesdrop.predictive.quantiles import quantiles_of
from keras_bayesdrop.predictive.quantities import Summary
from keras_bayesdrop.predictive.samples import covariance_of
from keras_bayesdrop.predictive.samples import mean_entropy
from keras_bayesdrop.predictive.select import quantities_of
from keras_bayesdrop.predictive.stats import Stats

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class Derived:
    """The derived quantities of a `Predictive`, which holds the fields.

    Each is computed in float64 by the formulas of the head, and returned in
    the type of `mean`.
    """

    head: Head
    mean: Array
    variance: Array
    stats: Stats
    samples: Array | None
    quantile_levels: tuple[float, ...] | None
    mean_entropy: Array | None
    vote_counts: npt.NDArray[Any] | None
    sampled_variance: Array | None
    num_samples_used: npt.NDArray[Any] | None
    within: Array | None
    between: Array | None
    noise_variance: Array | None
    mean_variance: Array | None

    # The head.

    @property
    def task(self) -> str:
        """Name of the head, such as `"regression"`."""
        return self.head.task

    @property
    def noise_precision(self) -> Any:
        """Precision of the noise of a `Regression`; `None` if not known.

        A float, or a tuple with one for each entry of the last axis.
        """
        return getattr(self.head, "noise_precision", None)

    # Moments and quantiles.

    @property
    def std(self) -> Array:
        """Standard deviation over the samples, `sqrt(variance)`."""
        return self._float(np.sqrt(self.variance))

    @property
    def mc_error(self) -> Array:
        """Standard error of `mean` over the samples.

            mc_error = std / sqrt(T)

        More samples would still move the mean by about this much. It shrinks
        with their number; `std` does not. Only sampled noise counts:
        `sampled_variance`, where it is there, takes the place of the
        variance. Zero for a prediction by moments, which has no samples.

        Balanced draws have a smaller error, which the means of their `B`
        whole blocks of 16 samples show. A few of these means say little, so
        that the error of independent draws counts with a weight of 4:

            mc_error**2 = (4 * std**2 / T + (B - 1) * mean_variance) / (B + 3)

        and at most `16 / 15 * std**2 / T`, which balanced draws never exceed.
        """
        if self.sampled_variance is not None:
            std = np.sqrt(self.sampled_variance)
        elif self.stats.sampled:
            std = self.std
        else:
            return np.zeros_like(self.mean)
        counts = self._counts(self.mean.ndim)
        with np.errstate(invalid="ignore"):  # infinite samples
            error = quantities.mc_error(std, counts, self.mean_variance)
        return self._float(error)

    def quantile(self, q: float | Sequence[float]) -> Array:
        """Returns quantiles of the samples.

        They describe the uncertainty about the function that the network
        computes, without observation noise (see `interval`). They are exact
        if the samples were kept. Otherwise only the stored levels are
        available; a regression by moments has normal quantiles.

        Args:
            q: Float in `[0, 1]`, or a sequence of them.

        Returns:
            Array `[rows, outputs]`; for a sequence `[levels, rows, outputs]`.
        """
        levels = check_quantile_levels(q)
        if self.samples is not None:
            return self._float(quantiles_of(self.samples, levels))
        if not self.stats.sampled:
            normal = self._quantities.normal_quantile(self._result, levels)
            if normal is not None:
                return self._float(normal)
        flat = levels.reshape(-1)
        stored = [stored_quantile(self._result, level) for level in flat]
        values = [value for value in stored if value is not None]
        if len(values) < len(flat):
            raise MissingSamplesError(
                f"Cannot compute the quantile q={q}. Expected samples, or "
                "this level among the stored ones. Received: "
                f"samples=None, quantile_levels={self.quantile_levels}. Use "
                "predict_with_uncertainty(..., return_samples=True) or "
                "predict_with_uncertainty(..., quantiles=[...])."
            )
        whole = np.stack(values).reshape(levels.shape + self.mean.shape)
        return self._float(whole)

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central interval of the predictive distribution.

        Regression with `noise_precision` tau and samples: quantiles of

            p(y) = sum{ N(y; y[t], 1 / tau) : t } / T

        at `(1 - level) / 2` and `(1 + level) / 2`; with learned noise each
        sample has a variance of its own. Without tau: the quantiles of the
        samples at these levels, or the stored ones. Without either, the
        normal approximation

            mean -+ z * sqrt(total),    z = Phi^-1((1 + level) / 2)

        For classification and binary it is an interval of each *probability*:
        quantiles of the samples, stored quantiles, or `mean -+ z * std`,
        clipped to [0, 1].

        Args:
            level: Float in `(0, 1)`. Probability of the interval.

        Returns:
            Arrays `(lower, upper)`, each `[rows, outputs]`.
        """
        if not 0 < level < 1:
            raise BayesdropError(
                "Invalid value for argument `level`. Expected a float in "
                f"(0, 1). Received: level={level}"
            )
        tails = ((1 - level) / 2, (1 + level) / 2)
        lower, upper = self._quantities.interval(self._result, tails)
        return self._float(lower), self._float(upper)

    # Information, in nats. Classification and binary only.

    @property
    def predictive_entropy(self) -> Array:
        """Entropy of the mean prediction, in nats: all uncertainty.

            H[mean] = -sum{ mean[c] * log(mean[c]) : c }

        For binary, the Bernoulli entropy of each output.
        """
        self._quantities.need_information("predictive_entropy")
        return self._float(self._quantities.entropy(self.mean))

    @property
    def expected_entropy(self) -> Array:
        """Mean of the samples' entropies, in nats: the aleatoric part.

            E[H] = sum{ H[y[t]] : t } / T

        Without the last axis for classification; per output for binary.
        """
        self._quantities.need_information("expected_entropy")
        return self._float(self._expected_entropy("expected_entropy"))

    @property
    def mutual_information(self) -> Array:
        """Information between label and network, in nats: the epistemic part.

            MI = predictive_entropy - expected_entropy

        It is never negative: a difference below zero is rounding, and becomes
        zero. With float32 probabilities its error is about 1e-7 nats.
        """
        self._quantities.need_information("mutual_information")
        whole = self._quantities.entropy(self.mean)
        part = self._expected_entropy("mutual_information")
        return self._float(quantities.mutual_information(whole, part))

    @property
    def variation_ratio(self) -> Array:
        """Fraction of the samples that do not vote for the favourite class.

            variation_ratio = 1 - max{ votes[c] : c } / T

        For binary a sample votes for the class 1 if its probability is at
        least 0.5.
        """
        own = self._quantities
        own.need_information("variation_ratio")
        votes = self.vote_counts
        if votes is None:
            samples = need_samples(self._result, "variation_ratio")
            votes = own.count_votes(samples)
        counts = self._counts(self.mean.ndim - own.class_axes)
        favourite = own.favourite_votes(votes, counts)
        return self._float(quantities.variation_ratio(favourite, counts))

    # Parts of the variance.

    @property
    def epistemic(self) -> Array:
        """Variance that more training data would remove: `variance`."""
        return self.variance

    @property
    def aleatoric(self) -> Array:
        """Variance of the observation itself.

        Regression: `1 / noise_precision`; zero if `noise_precision` is `None`,
        since the noise is not known then. Heteroscedastic: `noise_variance`,
        the mean over the samples of the variance that the model predicts,

            aleatoric = sum{ exp(s[t]) : t } / T

        Classification and binary: the mean variance of the label, a zero or
        one per class:

            aleatoric = sum{ p[t] * (1 - p[t]) : t } / T
        """
        return self._float(self._quantities.aleatoric(self._summary))

    @property
    def total(self) -> Array:
        """Variance of an observation: `epistemic + aleatoric`."""
        return self.epistemic + self.aleatoric

    def covariance(self) -> Array:
        """Covariances between the outputs of each row, over the samples.

            covariance[i, j] = sum{ (y[t, i] - mean[i]) * (y[t, j] - mean[j])
                                    : t } / (T - 1)

        It needs kept samples. Its diagonal is `variance`, except for an
        ensemble in which networks differ in their number of samples, or have
        balanced draws. Outputs with several axes are counted along the
        flattened axes. That of balanced draws is unbiased like `variance`.

        Returns:
            Array `[rows, outputs, outputs]`.

        Example:
        ```python
        p = keras_bayesdrop.predict_with_uncertainty(
            model, x, return_samples=True
        )
        p.covariance().shape
        ```
        """
        samples = need_samples(self._result, "covariance")
        balanced = self.mean_variance is not None
        return covariance_of(samples, self.mean, balanced)

    # Against data, and as other objects.

    def log_likelihood(self, y: npt.ArrayLike) -> Array:
        """Log of the predictive density of the observed `y`, in nats per row.

        Regression with `D` outputs, where `d[t]` is the distance of `y` from
        `y[t]` (needs samples and `noise_precision` tau):

            logsumexp{ -tau / 2 * d[t]**2 : t } - log(T)
                - D / 2 * log(2 * pi) + D / 2 * log(tau)

        Heteroscedastic: the log of the mean over the samples of the product
        over the outputs of `N(y; y[t], noise_samples[t])`.

        For a prediction by moments: the normal density with this mean and
        total variance, with independent outputs.

        Classification and binary: `log(mean[y])`, summed over the outputs if
        a row has several labels. A label of probability zero gives minus
        infinity. The literature reports the mean over the rows as the test
        log-likelihood.

        Args:
            y: Numbers: `[rows, outputs]`. Classification: class numbers
                `[rows]`, or one-hot `[rows, classes]`. Binary: zeros and ones
                `[rows, outputs]`. An axis of length 1 may be left out or
                added at the end.

        Returns:
            Array `[rows]`.
        """
        return self._float(self._quantities.log_likelihood(self._result, y))

    def to_distribution(self) -> Any:
        """Returns the predictive as a TensorFlow Probability distribution.

        Its batch shape is that of `mean` (classification: without the
        classes), so outputs are described one by one. Regression with samples
        and `noise_precision`: the equal-weight mixture of `N(y[t], 1 / tau)`.
        Heteroscedastic with samples: that of `N(y[t], noise_samples[t])`.
        Regression with samples alone: their empirical distribution.
        Regression without samples: `N(mean, total)`. Classification and
        binary: the categorical or Bernoulli distribution of the label.
        """
        import tensorflow_probability as tfp

        return self._quantities.distribution(self._result, tfp.distributions)

    # Helpers.

    @property
    def _result(self) -> "Predictive":
        """This prediction, as the argument of a formula."""
        return cast("Predictive", self)

    @property
    def _quantities(self) -> Quantities:
        """The formulas of the head."""
        return quantities_of(self.head)

    @property
    def _summary(self) -> Summary:
        """The moments, with how they came about."""
        counts = self._counts(self.mean.ndim)
        if self.within is not None and self.between is not None:
            biased = self.within.astype(np.float64) + self.between
            return Summary(
                self.mean,
                biased,
                counts,
                all_sampled=False,
                noise_variance=self.noise_variance,
            )
        return Summary(
            self.mean,
            self.variance,
            counts,
            self.stats.sampled,
            self.sampled_variance,
            self.noise_variance,
            self.mean_variance,
        )

    def _float(self, values: npt.ArrayLike) -> Array:
        """Casts a result to the type of `mean`."""
        return np.asarray(values, dtype=self.mean.dtype)

    def _counts(self, axes: int) -> Any:
        """Number of samples, `[rows, 1, ...]` where it differs between rows."""
        used = self.num_samples_used
        if used is None:
            return self.stats.num_samples
        return used.reshape(-1, *(1,) * (axes - 1))

    def _expected_entropy(self, name: str) -> Float64Array:
        """Mean entropy of the samples; errors speak of `name`."""
        if self.mean_entropy is not None:
            return self.mean_entropy.astype(np.float64)
        samples = need_samples(self._result, name)
        return mean_entropy(samples, self._quantities)
