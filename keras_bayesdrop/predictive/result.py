# SPDX-License-Identifier: Apache-2.0
"""What a prediction with uncertainty returns.

A `Predictive` holds what was accumulated over the Monte Carlo samples and
derives every other quantity from it when asked. It is NumPy only: it can be
saved, sent to another process and read where no TensorFlow is installed.

Shapes: `T` samples, `rows` examples; `outputs` is what is left of the shape.
For classification its last axis runs over the classes.
"""

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.arrays import as_floating
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.files import replacing_file
from keras_bayesdrop._core.limits import Limit
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import TooLargeError
from keras_bayesdrop.predictive.checks import check_fields
from keras_bayesdrop.predictive.checks import check_task
from keras_bayesdrop.predictive.entropy import count_votes
from keras_bayesdrop.predictive.entropy import entropy_of
from keras_bayesdrop.predictive.file import FORMAT
from keras_bayesdrop.predictive.file import UNREADABLE
from keras_bayesdrop.predictive.file import read_fields
from keras_bayesdrop.predictive.labels import label_probabilities
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.labels import sum_per_row
from keras_bayesdrop.predictive.mixture import log_mean_exp
from keras_bayesdrop.predictive.mixture import mixture_quantile
from keras_bayesdrop.predictive.quantiles import quantiles_of
from keras_bayesdrop.predictive.stats import EngineStep as EngineStep
from keras_bayesdrop.predictive.stats import Stats as Stats

if TYPE_CHECKING:
    from keras_bayesdrop.decisions._deferral import Deferral

Rows = int | slice | Sequence[int] | Sequence[bool] | npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Predictive:
    """A predictive distribution, as estimated by `T` Monte Carlo samples.

    With samples `y[t]` (for classification: vectors of probabilities):

        mean     = sum{ y[t] : t } / T
        variance = sum{ (y[t] - mean)**2 : t } / (T - 1)

    Quantities are computed in float64 and returned in the type of `mean`.
    Rows are selected by indexing, and `len` counts them.

    Args:
        task: `"regression"`, `"classification"` (probabilities on the last
            axis) or `"binary"` (one probability per output).
        mean: Array `[rows, outputs]`.
        variance: Array `[rows, outputs]`, with `T - 1` in the denominator.
            Of the type of `mean`, or float64 where that type does not hold
            it (that of outputs near 1e25 is 1e50); `epistemic` and `total`
            are of the same type.
        stats: How the prediction was made.
        samples: Array `[T, rows, outputs]`, or `None` if not kept. May be
            memory-mapped, and is not read into memory as a whole then.
        quantile_levels: Floats in `[0, 1]`: the quantiles that were asked for.
        quantile_values: Array `[levels, rows, outputs]`, one per level.
        mean_entropy: Mean of the entropies of the samples, in nats. Without
            the last axis for classification. What `expected_entropy` returns.
        vote_counts: For classification, in how many samples each class was
            the likeliest, `[rows, ..., classes]`; for binary, in how many the
            probability was at least 0.5.
        noise_precision: Float `tau`, regression only. The observation noise
            has variance `1 / tau`. `None` if it is not known.
        sampled_variance: Array `[rows, outputs]`, if a part of the noise was
            taken in closed form: the part of `variance` that was sampled,
            which is that of the mean given a sample. The rest is the mean of
            the variance given a sample.
        num_samples_used: Integers `[rows]`: the number `T` of samples of each
            row, if it differs between rows (a prediction with a tolerance).
            `None` if it is `stats.num_samples` for all.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(model, x, num_samples=100)
    unsure = p[p.mutual_information > 0.1]
    len(unsure), unsure.mean, unsure.std
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """

    task: str
    mean: Array
    variance: Array
    stats: Stats
    samples: Array | None = None
    quantile_levels: tuple[float, ...] | None = None
    quantile_values: Array | None = None
    mean_entropy: Array | None = None
    vote_counts: npt.NDArray[Any] | None = None
    noise_precision: float | None = None
    sampled_variance: Array | None = None
    num_samples_used: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        """Brings the arrays into form and checks that they fit together."""
        check_task(self.task)
        put = object.__setattr__
        for name in ROW_AXES:
            if getattr(self, name) is not None:
                array = as_numbers(name, getattr(self, name))
                if name not in _COUNTS:
                    array = as_floating(array)
                put(self, name, array)
        if self.quantile_levels is not None:
            levels = tuple(float(q) for q in self.quantile_levels)
            put(self, "quantile_levels", levels)
        check_fields(self)

    # Sequence of rows.

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.mean)

    def __getitem__(self, rows: Rows) -> "Predictive":
        """Returns the prediction for some of the rows.

        Args:
            rows: Slice, int array or list, bool mask, or a single int, which
                gives a `Predictive` of one row.
        """
        index = _row_index(rows, len(self))
        changes: dict[str, Any] = {
            name: getattr(self, name)[(slice(None),) * axis + (index,)]
            for name, axis in ROW_AXES.items()
            if getattr(self, name) is not None
        }
        stats = dataclasses.replace(self.stats, num_rows=len(changes["mean"]))
        return dataclasses.replace(self, stats=stats, **changes)

    def __iter__(self) -> Iterator["Predictive"]:
        """Iterates over the rows, each a `Predictive` of length 1."""
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        """Short summary."""
        spread = float(np.mean(self.std)) if self.mean.size else math.nan
        kept = "kept" if self.samples is not None else "not kept"
        return (
            f"Predictive(task={self.task!r}, rows={len(self)}, "
            f"outputs={self.mean.shape[1:]}, "
            f"num_samples={self._describe_counts()} ({kept}), "
            f"mean_std={spread:.4g})"
        )

    # Moments and quantiles.

    @property
    def std(self) -> Array:
        """Standard deviation over the samples, `sqrt(variance)`."""
        return self._float(np.sqrt(self.variance))

    @property
    def mc_error(self) -> Array:
        """Standard error of `mean` over the samples.

            mc_error = std / sqrt(T)

        It says how far more samples would still move the mean, and shrinks
        with their number; `std` does not. Only noise that was sampled counts
        (`sampled_variance` in place of the variance): zero for a prediction
        by moments, which has no samples.
        """
        if self.sampled_variance is not None:
            square = self.sampled_variance / self._counts(self.mean.ndim)
            return self._float(np.sqrt(square))
        if not self.stats.sampled:
            return np.zeros_like(self.mean)
        return self._float(self.std / np.sqrt(self._counts(self.mean.ndim)))

    def quantile(self, q: float | Sequence[float]) -> Array:
        """Returns quantiles of the samples.

        They describe what is not known about the function that the network
        computes; observation noise is not in them (see `interval`). Exact if
        the samples were kept; else only the levels that were asked for are
        there.

        Args:
            q: Float in `[0, 1]`, or a sequence of them.

        Returns:
            Array `[rows, outputs]`; for a sequence `[levels, rows, outputs]`.
        """
        levels = np.asarray(q, dtype=np.float64)
        inside = np.all((levels >= 0) & (levels <= 1))
        if levels.ndim > 1 or levels.size == 0 or not inside:
            raise BayesdropError(
                "Invalid value for argument `q`. Expected a float in [0, 1] "
                f"or a sequence of them. Received: q={q}"
            )
        if self.samples is not None:
            return self._float(quantiles_of(self.samples, levels))
        if not self.stats.sampled and self.task == "regression":
            return self._normal_quantile(levels)
        found = [self._stored_quantile(level) for level in levels.reshape(-1)]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            raise MissingSamplesError(
                f"Cannot give the quantile q={q}. Expected the samples, or "
                "that very level among those asked for. Received: "
                f"samples=None, quantile_levels={self.quantile_levels}. Use "
                "predict_with_uncertainty(..., return_samples=True) or "
                "predict_with_uncertainty(..., quantiles=[...])."
            )
        return np.stack(values).reshape(levels.shape + self.mean.shape)

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central interval of the predictive distribution.

        Regression with `noise_precision` tau and samples: quantiles of

            p(y) = sum{ N(y; y[t], 1 / tau) : t } / T

        at `(1 - level) / 2` and `(1 + level) / 2`. Without tau: those
        quantiles of the samples, or of the levels asked for if they are among
        them. For lack of both, the normal approximation

            mean -+ z * sqrt(total),    z = Phi^-1((1 + level) / 2)

        For classification and binary the interval is one for each
        *probability*: quantiles of the samples or of the levels asked for, or
        `mean -+ z * std`, cut off at 0 and 1.

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
        if self.samples is not None:
            if self.noise_precision is None:
                lower, upper = self.quantile(tails)
                return lower, upper
            noise = 1 / math.sqrt(self.noise_precision)
            lower, upper = (
                mixture_quantile(self.samples, noise, q) for q in tails
            )
            return self._float(lower), self._float(upper)
        if self.noise_precision is None:
            stored = [self._stored_quantile(q) for q in tails]
            if stored[0] is not None and stored[1] is not None:
                return stored[0], stored[1]
        return self._normal_interval(tails[1])

    # Information, in nats. Classification and binary only.

    @property
    def predictive_entropy(self) -> Array:
        """Entropy of the mean prediction, in nats: all uncertainty.

            H[mean] = -sum{ mean[c] * log(mean[c]) : c }

        For binary, the Bernoulli entropy of each output.
        """
        self._need_probabilities("predictive_entropy")
        return self._float(entropy_of(self.mean, self.task))

    @property
    def expected_entropy(self) -> Array:
        """Mean of the samples' entropies, in nats: the aleatoric part.

            E[H] = sum{ H[y[t]] : t } / T

        Without the last axis for classification; per output for binary.
        """
        self._need_probabilities("expected_entropy")
        return self._float(self._expected_entropy("expected_entropy"))

    @property
    def mutual_information(self) -> Array:
        """Information between label and network, in nats: the epistemic part.

            MI = predictive_entropy - expected_entropy

        It is never negative; a difference below zero is rounding, and given
        as zero. With float32 probabilities it is good to about 1e-7 nats.
        """
        self._need_probabilities("mutual_information")
        whole = entropy_of(self.mean, self.task)
        part = self._expected_entropy("mutual_information")
        return self._float(np.maximum(whole - part, 0.0))

    @property
    def variation_ratio(self) -> Array:
        """Fraction of the samples that do not vote for the favourite class.

            variation_ratio = 1 - max{ votes[c] : c } / T

        For binary a sample votes for the class 1 if its probability is at
        least 0.5.
        """
        self._need_probabilities("variation_ratio")
        votes = self.vote_counts
        if votes is None:
            samples = self._need_samples("variation_ratio")
            votes = count_votes(samples, self.task)
        if self.task == "binary":
            total = self._counts(votes.ndim)
            favourite = np.maximum(votes, total - votes)
        else:
            total = self._counts(votes.ndim - 1)
            favourite = votes.max(axis=-1)
        return self._float(1.0 - favourite / total)

    # Parts of the variance.

    @property
    def epistemic(self) -> Array:
        """Variance that more training data would remove: `variance`."""
        return self.variance

    @property
    def aleatoric(self) -> Array:
        """Variance of the observation itself.

        Regression: `1 / noise_precision`, and zero where `noise_precision` is
        `None`, for then nothing is known about the noise. Classification and
        binary, of the label as a zero or one per class, given the network:

            aleatoric = sum{ p[t] * (1 - p[t]) : t } / T
        """
        if self.task == "regression":
            tau = self.noise_precision
            noise = 0.0 if tau is None else 1.0 / tau
            return np.full_like(self.mean, noise)
        mean = self.mean.astype(np.float64)
        samples = self._counts(mean.ndim)
        variance = self.variance.astype(np.float64)
        if self.stats.sampled:
            variance *= (samples - 1) / samples
        elif self.sampled_variance is not None:
            variance -= self.sampled_variance / samples
        square = variance + mean**2
        return self._float(np.maximum(mean - square, 0.0))

    @property
    def total(self) -> Array:
        """Variance of an observation: `epistemic + aleatoric`."""
        return self.epistemic + self.aleatoric

    # Against data, and as other objects.

    def log_likelihood(self, y: npt.ArrayLike) -> Array:
        """Log of the predictive density of the observed `y`, in nats per row.

        Regression with `D` outputs, where `d[t]` is the distance of `y` from
        `y[t]` (needs samples and `noise_precision` tau):

            logsumexp{ -tau / 2 * d[t]**2 : t } - log(T)
                - D / 2 * log(2 * pi) + D / 2 * log(tau)

        Without samples of all noise (by moments): the normal density of this
        mean and total variance, outputs independent.

        Classification and binary: `log(mean[y])`, summed over the outputs if
        a row has several labels. An observation of probability zero gives
        minus infinity. The test log-likelihood of the literature is the mean
        over the rows.

        Args:
            y: Regression: `[rows, outputs]`. Classification: class numbers
                `[rows]`, or one-hot `[rows, classes]`. Binary: zeros and ones
                `[rows, outputs]`. An axis of length 1 may be left out or
                added at the end.

        Returns:
            Array `[rows]`.
        """
        if self.task == "regression":
            return self._float(self._regression_log_likelihood(y))
        chosen = label_probabilities(self.mean, y, self.task)
        with np.errstate(divide="ignore"):
            logs = np.log(chosen)
        return self._float(sum_per_row(logs))

    def to_distribution(self) -> Any:
        """Returns the predictive as a TensorFlow Probability distribution.

        Its batch shape is that of `mean` (classification: without the
        classes), so outputs are described one by one. Regression with samples
        and `noise_precision`: the equal-weight mixture of `N(y[t], 1 / tau)`.
        Regression with samples alone: their empirical distribution.
        Regression without samples: `N(mean, total)`. Classification and
        binary: the categorical or Bernoulli distribution of the label.
        """
        import tensorflow_probability as tfp

        tfd = tfp.distributions
        if self.task == "classification":
            return tfd.Categorical(probs=self.mean)
        if self.task == "binary":
            return tfd.Bernoulli(probs=self.mean)
        if self.samples is None:
            return tfd.Normal(self.mean, self._float(np.sqrt(self.total)))
        samples = np.moveaxis(self.samples, 0, -1)  # [rows, outputs, T]
        if self.noise_precision is None:
            return tfd.Empirical(samples)
        noise = samples.dtype.type(1 / math.sqrt(self.noise_precision))
        weights = np.zeros(samples.shape[-1], samples.dtype)
        return tfd.MixtureSameFamily(
            tfd.Categorical(logits=weights), tfd.Normal(samples, noise)
        )

    def defer(
        self,
        *,
        budget: float | int | None = None,
        threshold: float | None = None,
        by: str | npt.ArrayLike = "auto",
        y: npt.ArrayLike | None = None,
        loss: npt.ArrayLike | None = None,
    ) -> "Deferral":
        """Chooses the rows that are too unsure to be left to the model.

            deferred = { i : uncertainty[i] > threshold }

        The uncertainty is by default the loss that the prediction expects of
        itself, averaged over the labels or outputs of a row:

            classification, binary   1 - max{ mean[c] : c }
            regression               total

        That is the probability of an error, or the expected squared error;
        if whoever is asked costs `threshold` errors, it pays to ask for just
        these rows (Chow's rule).

        Args:
            budget: Hands over at most this share (float in `[0, 1]`) or
                number (int) of the rows, the least sure; of equally unsure
                ones the earlier.
            threshold: Hands over the rows whose uncertainty is above it.
                Give this or `budget`.
            by: `"auto"`, or the name of a quantity: `"predictive_entropy"`,
                `"expected_entropy"`, `"mutual_information"`,
                `"variation_ratio"`, `"std"`, `"epistemic"`, `"aleatoric"`,
                `"total"`, `"mc_error"`, `"expected_loss"` (the default),
                averaged over the values that it has per row; or an array
                `[rows]` of your own.
            y: Labels or targets, as in `log_likelihood`. If given, the result
                tells the share of errors, or the mean squared error, among
                the rows that are kept, and for every other threshold.
            loss: Array `[rows]` in place of `y`: what each row costs if it is
                kept.

        Returns:
            A `keras_bayesdrop.decisions.Deferral`.

        Example:
        ```python
        d = p.defer(budget=0.1, y=y)
        x[d.rows], d.threshold, d.risk, d.full_risk
        ```

        References:
            - Chow, 1970: On optimum recognition error and reject tradeoff.
              IEEE Transactions on Information Theory 16.
        """
        from keras_bayesdrop.decisions._deferral import defer

        return defer(self, budget, threshold, by, y, loss)

    def plot(
        self,
        x: npt.ArrayLike | None = None,
        y: npt.ArrayLike | None = None,
        out: "Predictive | None" = None,
        ax: Any = None,
    ) -> Any:
        """Draws the picture that fits the task and what is given.

        | given | regression | classification | binary |
        |---|---|---|---|
        | `x`, or `x` and `y` | `predictive_band` | | `predictive_band` |
        | `y` | `parity` | `reliability_diagram` | `reliability_diagram` |
        | `out` | `entropy_histogram` of `std` | `entropy_histogram` | same |
        | nothing | the same, of these rows alone | same | same |

        For a classification `x` is what to write under each row of a
        `class_scatter`, which is also drawn if nothing is given and there are
        samples of 24 rows at most.

        Those of `keras_bayesdrop.plots` have more options. They need
        matplotlib.

        Args:
            x: Numbers `[rows]` or `[rows, 1]`: the input, if there is one.
            y: Labels or targets, as in `log_likelihood`.
            out: Prediction of inputs from outside the distribution, to
                compare with these.
            ax: Matplotlib axes; `None` for those of a new figure.

        Returns:
            The axes.

        Example:
        ```python
        p.plot(y=y_test).figure.savefig("reliability.png")
        ```
        """
        from keras_bayesdrop.plots._choice import fitting_picture

        return fitting_picture(self, x, y, out, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one `.npz` file, without pickle.

        The file is whole or not there: it is written beside its place, brought
        to the disk, and renamed. After a crash, a kill or a full disk
        (`errors.WriteError`) the old file is as it was.

        Args:
            path: File to write; one that exists is replaced.
        """
        arrays = {
            name: getattr(self, name)
            for name in ROW_AXES
            if getattr(self, name) is not None
        }
        meta = {
            "format": FORMAT,
            "task": self.task,
            "noise_precision": self.noise_precision,
            "quantile_levels": self.quantile_levels,
            "stats": dataclasses.asdict(self.stats),
            "arrays": list(arrays),
        }
        # An open file, because np.savez would add a suffix to a name.
        with replacing_file(path) as part, part.open("wb") as file:
            np.savez(file, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], max_bytes: int | None = None
    ) -> "Predictive":
        """Reads what `save` wrote. Never unpickles.

        Args:
            path: File to read.
            max_bytes: How much memory the arrays may take; a file that says
                it holds more is refused before any is taken. By default half
                of the memory that is available, and no more than 1 GiB or 100
                times the size of the file, whichever is larger.

        Example:
        ```python
        keras_bayesdrop.predict_with_uncertainty(model, x).save("p.npz")
        p = keras_bayesdrop.Predictive.load("p.npz", max_bytes=8 * 10**9)
        ```
        """
        if max_bytes is not None:
            check_positive_int(max_bytes, "max_bytes")
        with open(path, "rb") as file:
            limit = Limit(path, max_bytes, "max_bytes")
            try:
                return cls(**read_fields(file, limit))
            except TooLargeError:
                raise
            except UNREADABLE as error:
                raise BayesdropError(
                    f"Cannot read a prediction from `{os.fspath(path)}`. "
                    "Expected a whole file written by `Predictive.save`. "
                    f"Received: {type(error).__name__}: {error}"
                ) from error

    # Helpers.

    def _float(self, values: npt.ArrayLike) -> Array:
        """Casts a result to the type of `mean`."""
        return np.asarray(values, dtype=self.mean.dtype)

    def _counts(self, axes: int) -> Any:
        """Number of samples, `[rows, 1, ...]` where it differs between rows."""
        used = self.num_samples_used
        if used is None:
            return self.stats.num_samples
        return used.reshape(-1, *(1,) * (axes - 1))

    def _describe_counts(self) -> str:
        used = self.num_samples_used
        if used is None or used.size == 0:
            return str(self.stats.num_samples)
        return f"{used.min()}..{used.max()}, {used.mean():.4g} on average"

    def _need_probabilities(self, name: str) -> None:
        if self.task == "regression":
            raise BayesdropError(
                f"`{name}` is not defined for task='regression'. Expected a "
                "prediction of probabilities: task='classification' or "
                "'binary'. Received: task='regression'. Use `epistemic`, "
                "`aleatoric` and `total` instead."
            )

    def _need_samples(self, name: str) -> Array:
        if self.samples is None:
            raise MissingSamplesError(
                f"Cannot compute `{name}`. Expected the single samples. "
                "Received: samples=None. Use predict_with_uncertainty(..., "
                "return_samples=True)."
            )
        return self.samples

    def _expected_entropy(self, name: str) -> Float64Array:
        """Mean entropy of the samples; `name` is what it is needed for."""
        if self.mean_entropy is not None:
            return self.mean_entropy.astype(np.float64)
        samples = self._need_samples(name)
        entropy = np.zeros(())
        for sample in samples:
            entropy = entropy + entropy_of(sample, self.task)
        return entropy / len(samples)

    def _stored_quantile(self, q: float) -> Array | None:
        """The quantile kept for level `q`, if it was asked for."""
        if self.quantile_levels is None or self.quantile_values is None:
            return None
        # (1 - 0.9) / 2 is not the float 0.05: levels match up to rounding.
        for level, values in zip(
            self.quantile_levels, self.quantile_values, strict=True
        ):
            if math.isclose(level, q, rel_tol=0, abs_tol=1e-9):
                return self._float(values)
        return None

    def _normal_interval(self, upper_level: float) -> tuple[Array, Array]:
        regression = self.task == "regression"
        variance = self.total if regression else self.variance
        reach = NormalDist().inv_cdf(upper_level) * np.sqrt(
            variance, dtype=np.float64
        )
        lower, upper = self.mean - reach, self.mean + reach
        if not regression:
            lower, upper = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
        return self._float(lower), self._float(upper)

    def _normal_quantile(self, levels: Float64Array) -> Array:
        """Quantiles of a normal distribution of this mean and variance."""
        normal = NormalDist()
        reach = np.array(
            [
                math.copysign(math.inf, q - 0.5)
                if q in (0.0, 1.0)
                else normal.inv_cdf(q)
                for q in levels.reshape(-1)
            ]
        ).reshape(levels.shape + (1,) * self.mean.ndim)
        std = self.std.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return self._float(self.mean + np.where(std > 0, reach * std, 0.0))

    def _regression_log_likelihood(self, y: npt.ArrayLike) -> Float64Array:
        tau = self.noise_precision
        if tau is None:
            raise BayesdropError(
                "Cannot compute `log_likelihood` of a regression. Expected "
                "the precision of the observation noise. Received: "
                "noise_precision=None. Use predict_with_uncertainty(..., "
                "noise_precision=tau)."
            )
        target = regression_targets(self.mean, y)
        if not self.stats.sampled:
            total = self.total.astype(np.float64)
            square = np.square(target - self.mean) / total
            return sum_per_row(-0.5 * (square + np.log(2 * math.pi * total)))
        samples = self._need_samples("log_likelihood")
        square = np.empty((len(samples), len(self)))  # [T, rows]
        for row, sample in zip(square, samples, strict=True):
            row[:] = sum_per_row(np.square(target - sample))
        outputs = math.prod(self.mean.shape[1:])
        constant = outputs / 2 * (math.log(tau) - math.log(2 * math.pi))
        return log_mean_exp(-tau / 2 * square) + constant


# For each array the axis of its rows; also the arrays that a file holds.
ROW_AXES = {
    "mean": 0,
    "variance": 0,
    "samples": 1,
    "quantile_values": 1,
    "mean_entropy": 0,
    "vote_counts": 0,
    "sampled_variance": 0,
    "num_samples_used": 0,
}
# Those of them that hold whole numbers.
_COUNTS = ("vote_counts", "num_samples_used")


def _row_index(rows: Rows, length: int) -> slice | npt.NDArray[Any]:
    """Turns a selection of rows into an index that keeps the axis."""
    if isinstance(rows, slice):
        return rows
    index = np.asarray(rows)
    if index.size == 0 and not isinstance(rows, np.ndarray):
        index = index.astype(np.intp)  # An empty list has no type of its own.
    mask = index.dtype == np.bool_
    whole = np.issubdtype(index.dtype, np.integer)
    if index.ndim > 1 or not (mask or whole) or (mask and index.ndim == 0):
        raise BayesdropError(
            "Invalid selection of rows. Expected a slice, an int, or an "
            "array of ints or bools with one axis. Received: "
            f"{type(rows).__name__} of type {index.dtype} and shape "
            f"{index.shape}"
        )
    if mask and len(index) != length:
        raise BayesdropError(
            f"Invalid selection of rows. Expected a mask of length {length}. "
            f"Received: a mask of length {len(index)}"
        )
    return np.atleast_1d(index)
