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
import zipfile
import zlib
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError

Array = npt.NDArray[np.floating[Any]]
Float64Array = npt.NDArray[np.float64]
Rows = int | slice | Sequence[int] | Sequence[bool] | npt.NDArray[Any]

TASKS = ("regression", "classification", "binary")

# Written into every file; a reader refuses what it does not know.
_FORMAT = 1

# Probabilities may leave [0, 1] by the rounding of a float16 softmax.
_PROBABILITY_SLACK = 2e-3

# Mixture quantiles are computed in pieces of about this many samples, so that
# their temporary arrays stay in cache.
_MIXTURE_VALUES = 2**17


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """One step of the plan, who ran it, and why."""

    name: str
    engine: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Stats:
    """How a prediction was made.

    Attributes:
        num_samples: Number `T` of Monte Carlo samples.
        num_rows: Number of examples.
        seed: Seed of the masks: with it the prediction can be repeated.
        masks: `"shared"` or `"independent"`.
        method: `"sampling"`, or the name of another way.
        engine: The steps of the plan, in order.
        seconds: Wall time in seconds.
        samples_per_second: Rows times samples, per second.
        batch_size: Number of rows in memory at a time.
    """

    num_samples: int
    num_rows: int
    seed: int
    masks: str
    method: str
    engine: tuple[EngineStep, ...]
    seconds: float
    samples_per_second: float
    batch_size: int


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Predictive:
    """A predictive distribution, as estimated by `T` Monte Carlo samples.

    With samples `y[t]` (for classification: vectors of probabilities):

        mean     = sum{ y[t] : t } / T
        variance = sum{ (y[t] - mean)**2 : t } / (T - 1)

    Quantities are computed in float64 and returned in the type of `mean`.
    Rows are selected by indexing, `len` counts them:

        p = predict_with_uncertainty(model, x, num_samples=100)
        unsure = p[p.mutual_information > 0.1]

    Args:
        task: `"regression"`, `"classification"` (probabilities on the last
            axis) or `"binary"` (one probability per output).
        mean: Array `[rows, outputs]`.
        variance: Array `[rows, outputs]`, with `T - 1` in the denominator.
        stats: How the prediction was made.
        samples: Array `[T, rows, outputs]`, or `None` if not kept.
        quantile_levels: Floats in `[0, 1]`: the quantiles that were asked for.
        quantile_values: Array `[levels, rows, outputs]`, one per level.
        mean_entropy: Mean of the entropies of the samples, in nats. Without
            the last axis for classification. What `expected_entropy` returns.
        vote_counts: For classification, in how many samples each class was
            the likeliest, `[rows, ..., classes]`; for binary, in how many the
            probability was at least 0.5.
        noise_precision: Float `tau`, regression only. The observation noise
            has variance `1 / tau`. `None` if it is not known.

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

    def __post_init__(self) -> None:
        """Brings the arrays into form and checks that they fit together."""
        _check_task(self.task)
        put = object.__setattr__
        for name in _ROW_AXES:
            if getattr(self, name) is not None:
                array = _as_numbers(name, getattr(self, name))
                if name != "vote_counts":
                    array = _as_floating(array)
                put(self, name, array)
        if self.quantile_levels is not None:
            levels = tuple(float(q) for q in self.quantile_levels)
            put(self, "quantile_levels", levels)
        _check_fields(self)

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
            for name, axis in _ROW_AXES.items()
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
            f"num_samples={self.stats.num_samples} ({kept}), "
            f"mean_std={spread:.4g})"
        )

    # Moments and quantiles.

    @property
    def std(self) -> Array:
        """Standard deviation over the samples, `sqrt(variance)`."""
        return np.sqrt(self.variance)

    @property
    def mc_error(self) -> Array:
        """Standard error of `mean` over the samples.

            mc_error = std / sqrt(T)

        It says how far more samples would still move the mean, and shrinks
        with their number; `std` does not.
        """
        return self._float(self.std / math.sqrt(self.stats.num_samples))

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
            return self._float(np.quantile(self.samples, levels, axis=0))
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
                _mixture_quantile(self.samples, noise, q) for q in tails
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
        return self._float(_entropy(self.mean, self.task))

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
        whole = _entropy(self.mean, self.task)
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
            votes = _count_votes(samples, self.task)
        total = self.stats.num_samples
        if self.task == "binary":
            favourite = np.maximum(votes, total - votes)
        else:
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
        samples = self.stats.num_samples
        variance = self.variance.astype(np.float64)
        square = (samples - 1) / samples * variance + mean**2
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
            return tfd.Normal(self.mean, np.sqrt(self.total))
        samples = np.moveaxis(self.samples, 0, -1)  # [rows, outputs, T]
        if self.noise_precision is None:
            return tfd.Empirical(samples)
        noise = samples.dtype.type(1 / math.sqrt(self.noise_precision))
        weights = np.zeros(samples.shape[-1], samples.dtype)
        return tfd.MixtureSameFamily(
            tfd.Categorical(logits=weights), tfd.Normal(samples, noise)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one `.npz` file, without pickle.

        Args:
            path: File to write; one that exists is replaced.
        """
        arrays = {
            name: getattr(self, name)
            for name in _ROW_AXES
            if getattr(self, name) is not None
        }
        meta = {
            "format": _FORMAT,
            "task": self.task,
            "noise_precision": self.noise_precision,
            "quantile_levels": self.quantile_levels,
            "stats": dataclasses.asdict(self.stats),
            "arrays": list(arrays),
        }
        # An open file, because np.savez would add a suffix to a name.
        with open(path, "wb") as file:
            np.savez(file, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Predictive":
        """Reads what `save` wrote. Never unpickles.

        Args:
            path: File to read.
        """
        with open(path, "rb") as file:
            try:
                return cls(**_read_fields(file))
            except _UNREADABLE as error:
                raise BayesdropError(
                    f"Cannot read a prediction from `{os.fspath(path)}`. "
                    "Expected a whole file written by `Predictive.save`. "
                    f"Received: {type(error).__name__}: {error}"
                ) from error

    # Helpers.

    def _float(self, values: npt.ArrayLike) -> Array:
        """Casts a result to the type of `mean`."""
        return np.asarray(values, dtype=self.mean.dtype)

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
            entropy = entropy + _entropy(sample, self.task)
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

    def _regression_log_likelihood(self, y: npt.ArrayLike) -> Float64Array:
        tau = self.noise_precision
        if tau is None:
            raise BayesdropError(
                "Cannot compute `log_likelihood` of a regression. Expected "
                "the precision of the observation noise. Received: "
                "noise_precision=None. Use predict_with_uncertainty(..., "
                "noise_precision=tau)."
            )
        samples = self._need_samples("log_likelihood")
        target = regression_targets(self.mean, y)
        square = np.empty((len(samples), len(self)))  # [T, rows]
        for row, sample in zip(square, samples, strict=True):
            row[:] = sum_per_row(np.square(target - sample))
        outputs = math.prod(self.mean.shape[1:])
        constant = outputs / 2 * (math.log(tau) - math.log(2 * math.pi))
        return _log_mean_exp(-tau / 2 * square) + constant


# For each array the axis of its rows; also the arrays that a file holds.
_ROW_AXES = {
    "mean": 0,
    "variance": 0,
    "samples": 1,
    "quantile_values": 1,
    "mean_entropy": 0,
    "vote_counts": 0,
}

# What a damaged or foreign file can raise while it is read.
_UNREADABLE = (
    AttributeError,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def regression_targets(mean: Array, y: npt.ArrayLike) -> Float64Array:
    """Checks targets of a regression and gives them the shape of `mean`."""
    target = _as_numbers("y", y).astype(np.float64)
    if not np.all(np.isfinite(target)):
        raise NonFiniteError(
            "Invalid value for argument `y`. Expected finite targets. "
            f"Received: {np.sum(~np.isfinite(target))} values that are NaN or "
            "infinite."
        )
    return _fit_shape(target, mean.shape, "y", f"{mean.shape}")


def class_labels(mean: Array, y: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Checks class labels and gives them as numbers.

    Args:
        mean: Probabilities `[rows, ..., classes]`.
        y: Class numbers `[rows, ...]`, or one-hot of the shape of `mean`.

    Returns:
        Class numbers `[rows, ...]`.
    """
    labels = _as_numbers("y", y)
    classes = mean.shape[-1]
    if labels.shape == mean.shape:
        hot = labels == 1
        if not np.all(hot | (labels == 0)) or not np.all(hot.sum(-1) == 1):
            raise BayesdropError(
                "Invalid one-hot labels in argument `y`. Expected one 1 and "
                "otherwise zeros along the last axis. Received: values from "
                f"{labels.min()} to {labels.max()}, sums from "
                f"{labels.sum(-1).min()} to {labels.sum(-1).max()}"
            )
        return np.asarray(np.argmax(hot, axis=-1))
    shape = mean.shape[:-1]
    expected = f"{shape} of class numbers or {mean.shape} of one-hot labels"
    labels = _fit_shape(labels, shape, "y", expected)
    inside = (labels >= 0) & (labels < classes)
    if not np.all(inside & (labels == np.floor(labels))):
        raise BayesdropError(
            "Invalid labels in argument `y`. Expected whole numbers from 0 to "
            f"{classes - 1}. Received: values from {labels.min()} to "
            f"{labels.max()}, of type {labels.dtype}"
        )
    return labels.astype(np.intp)


def binary_labels(mean: Array, y: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Checks labels 0 and 1 and gives them the shape of `mean`."""
    labels = _as_numbers("y", y)
    labels = _fit_shape(labels, mean.shape, "y", f"{mean.shape}")
    if not np.all((labels == 0) | (labels == 1)):
        raise BayesdropError(
            "Invalid labels in argument `y`. Expected only 0 and 1. Received: "
            f"values from {labels.min()} to {labels.max()}, of type "
            f"{labels.dtype}"
        )
    return np.asarray(labels == 1)


def label_probabilities(
    mean: Array, y: npt.ArrayLike, task: str
) -> Float64Array:
    """Mean probability of the label that was observed, one per label."""
    p = np.clip(mean.astype(np.float64), 0.0, 1.0)
    if task == "binary":
        return np.where(binary_labels(p, y), p, 1.0 - p)
    labels = class_labels(p, y)
    return np.take_along_axis(p, labels[..., None], axis=-1)[..., 0]


def sum_per_row(values: Float64Array) -> Float64Array:
    """Sums over all axes but the first."""
    return np.asarray(values.sum(axis=tuple(range(1, values.ndim))))


def _fit_shape(
    values: npt.NDArray[Any], shape: tuple[int, ...], name: str, expected: str
) -> npt.NDArray[Any]:
    """Adds or drops a last axis of length 1, if that gives `shape`."""
    if values.shape in (shape, (*shape, 1)) or (*values.shape, 1) == shape:
        return values.reshape(shape)
    raise BayesdropError(
        f"Invalid shape of argument `{name}`. Expected {expected}. Received: "
        f"{name}.shape={values.shape}"
    )


def _entropy(probabilities: Array, task: str) -> Float64Array:
    """Entropy in nats, with `0 * log(0) = 0`."""
    p = np.clip(probabilities.astype(np.float64), 0.0, 1.0)
    if task == "binary":
        return _minus_p_log_p(p) + _minus_p_log_p(1.0 - p)
    return np.asarray(_minus_p_log_p(p).sum(axis=-1))


def _minus_p_log_p(p: Float64Array) -> Float64Array:
    return -p * np.log(np.where(p > 0, p, 1.0))


def _count_votes(samples: Array, task: str) -> npt.NDArray[Any]:
    """How many samples vote for each class (binary: for the class 1)."""
    if task == "binary":
        return np.asarray(np.sum(samples >= 0.5, axis=0))
    classes = samples.shape[-1]
    votes = np.argmax(samples, axis=-1).reshape(len(samples), -1)
    cells = votes + classes * np.arange(votes.shape[1])  # [T, labels]
    counts = np.bincount(cells.ravel(), minlength=classes * votes.shape[1])
    return counts.reshape(samples.shape[1:])


def _log_mean_exp(values: Float64Array) -> Float64Array:
    """`log(mean(exp(values)))` over the first axis, without overflow."""
    peak = values.max(axis=0)
    return np.asarray(peak + np.log(np.mean(np.exp(values - peak), axis=0)))


def _mixture_quantile(samples: Array, noise: float, q: float) -> Float64Array:
    """Quantile `q` of the equal-weight mixture of `N(samples[t], noise**2)`.

    Args:
        samples: Array `[T, ...]`.
        noise: Standard deviation of each part.
        q: Level in `(0, 1)`.

    Returns:
        Array `[...]`.
    """
    flat = samples.reshape(len(samples), -1)
    result = np.empty(flat.shape[1])
    width = max(1, _MIXTURE_VALUES // len(flat))
    for start in range(0, flat.shape[1], width):
        part = slice(start, start + width)
        result[part] = _solve_mixture(flat[:, part].astype(float), noise, q)
    return result.reshape(samples.shape[1:])


def _solve_mixture(
    samples: Float64Array, noise: float, q: float
) -> Float64Array:
    """Solves `mean{ Phi((x - samples[t]) / noise) : t } = q` for `x`.

    Newton's method from the normal approximation, inside a bracket that each
    step shrinks. A step that would leave the bracket, or that is more than
    half as long as the one before, is replaced by bisection: every element
    converges, however far apart the samples are.
    """
    shift = NormalDist().inv_cdf(q) * noise
    low, high = samples.min(axis=0) + shift, samples.max(axis=0) + shift
    spread = np.sqrt(samples.var(axis=0) + noise**2)
    x = np.clip(samples.mean(axis=0) + spread * shift / noise, low, high)
    stride = high - low
    largest = np.maximum(np.abs(low), np.abs(high))
    tolerance = 1e-9 * noise + 4 * np.finfo(np.float64).eps * largest
    while True:
        todo = np.flatnonzero(stride > tolerance)
        if todo.size == 0:
            return np.asarray(x)
        here = x[todo]
        z = (here - samples[:, todo]) / noise  # [T, elements to do]
        excess = _normal_cdf(z).mean(axis=0) - q
        low[todo] = np.where(excess < 0, here, low[todo])
        high[todo] = np.where(excess < 0, high[todo], here)
        density = np.exp(-(z**2) / 2).mean(axis=0) / math.sqrt(2 * math.pi)
        # No slope between distant samples: an infinite step, hence bisection.
        step = np.full_like(here, math.inf)
        np.divide(excess * noise, density, out=step, where=density > 1e-99)
        there = here - step
        bisect = (there < low[todo]) | (there > high[todo])
        bisect |= np.abs(step) > stride[todo] / 2
        half = (high[todo] - low[todo]) / 2
        x[todo] = np.where(bisect, low[todo] + half, there)
        stride[todo] = np.where(bisect, half, np.abs(step))


def _normal_cdf(z: Float64Array) -> Float64Array:
    """Standard normal distribution function, to the last digit.

    NumPy has none; a call of `math.erfc` per value takes about 50 ns.
    """
    scaled = (z.ravel() * -math.sqrt(0.5)).tolist()
    values = np.fromiter(map(math.erfc, scaled), np.float64, z.size)
    return 0.5 * values.reshape(z.shape)


def _as_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise BayesdropError(
            f"Invalid value for argument `{name}`. Expected an array of "
            f"numbers. Received: an array of type {array.dtype}"
        )
    return array


def _as_floating(array: npt.NDArray[Any]) -> Array:
    """Float32 or float64, whichever it is; anything else as float32."""
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32)


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


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise BayesdropError(
            f"Invalid value for argument `task`. Expected one of {TASKS}. "
            f"Received: task={task!r}"
        )


def _check_fields(p: Predictive) -> None:
    """Checks that the parts of a prediction fit together."""
    axes = 2 if p.task == "classification" else 1
    if p.mean.ndim < axes:
        raise BayesdropError(
            f"Invalid shape of argument `mean`. Expected at least {axes} "
            f"axes for task={p.task!r}. Received: mean.shape={p.mean.shape}"
        )
    if p.stats.num_samples < 2:
        raise BayesdropError(
            "Invalid number of samples. Expected at least 2, since the "
            "variance of one is not defined. Received: "
            f"num_samples={p.stats.num_samples}"
        )
    if (p.quantile_levels is None) != (p.quantile_values is None):
        raise BayesdropError(
            "Invalid quantiles. Expected `quantile_levels` and "
            "`quantile_values` together or neither. Received: "
            f"quantile_levels={p.quantile_levels}"
        )
    shape = p.mean.shape
    labels = shape[:-1] if p.task == "classification" else shape
    expected = {
        "variance": shape,
        "samples": (p.stats.num_samples, *shape),
        "quantile_values": (len(p.quantile_levels or ()), *shape),
        "mean_entropy": labels,
        "vote_counts": shape,
    }
    for name, wanted in expected.items():
        array = getattr(p, name)
        if array is not None and array.shape != wanted:
            raise BayesdropError(
                f"Invalid shape of argument `{name}`. Expected {wanted}, to "
                f"fit mean.shape={shape} and "
                f"num_samples={p.stats.num_samples}. Received: "
                f"{name}.shape={array.shape}"
            )
    if p.stats.num_rows != len(p.mean):
        raise BayesdropError(
            "Invalid value for argument `stats`. Expected "
            f"num_rows={len(p.mean)}, the length of `mean`. Received: "
            f"num_rows={p.stats.num_rows}"
        )
    if p.task == "regression":
        _check_precision(p.noise_precision)
    else:
        _check_probabilities(p)


def _check_precision(tau: float | None) -> None:
    if tau is not None and not 0 < tau < math.inf:
        raise BayesdropError(
            "Invalid value for argument `noise_precision`. Expected a "
            "positive float, the inverse of the noise variance. Received: "
            f"noise_precision={tau}"
        )


def _check_probabilities(p: Predictive) -> None:
    if p.noise_precision is not None:
        raise BayesdropError(
            "Invalid value for argument `noise_precision`. Expected None "
            f"for task={p.task!r}: only a regression has observation noise. "
            f"Received: noise_precision={p.noise_precision}"
        )
    slack = _PROBABILITY_SLACK
    if not np.all((p.mean >= -slack) & (p.mean <= 1 + slack)):
        raise BayesdropError(
            "Invalid value for argument `mean`. Expected probabilities in "
            f"[0, 1] for task={p.task!r}. Received: values from "
            f"{p.mean.min()} to {p.mean.max()}"
        )


def _read_fields(file: Any) -> dict[str, Any]:
    """Reads the constructor's arguments from an open `.npz` file."""
    with np.load(file, allow_pickle=False) as archive:
        meta = json.loads(archive["meta"].item())
        if meta["format"] != _FORMAT:
            raise ValueError(
                f"format {meta['format']}, where this version of "
                f"keras_bayesdrop reads format {_FORMAT}"
            )
        arrays = {name: archive[name] for name in meta["arrays"]}
    stats = dict(meta["stats"])
    steps = tuple(EngineStep(**step) for step in stats.pop("engine"))
    return {
        "task": meta["task"],
        "noise_precision": meta["noise_precision"],
        "quantile_levels": meta["quantile_levels"],
        "stats": Stats(engine=steps, **stats),
        **arrays,
    }
