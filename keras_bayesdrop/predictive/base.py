# SPDX-License-Identifier: Apache-2.0
"""The contract of the quantities of a head.

`select.quantities_of(head)` is the one place that turns a head into the object
with its formulas. No other module of this room asks for the task.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantities import NUMPY
from keras_bayesdrop.predictive.quantities import Arrays
from keras_bayesdrop.predictive.quantities import Summary

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class Quantities:
    """The quantities of outputs with one kind of head.

    Methods that take `xp` work on NumPy arrays and on tensors; the others
    take a `Predictive`. Results are not rounded to the type of the mean.

    Attributes:
        head: The head.
        class_axes: 1 if the last axis runs over classes, else 0.
        has_information: Whether entropies and votes are defined.
        has_learned_noise: Whether there is a variance of the noise for every
            number: `noise_variance`, and `noise_samples` beside samples.
    """

    class_axes: ClassVar[int] = 0
    has_information: ClassVar[bool] = False
    has_learned_noise: ClassVar[bool] = False

    def __init__(self, head: Head) -> None:
        """Takes the head."""
        self.head = head

    # By NumPy or TensorFlow.

    def aleatoric(self, summary: Summary, xp: Arrays = NUMPY) -> Any:
        """Variance of an observation that the network does not explain."""
        raise NotImplementedError

    def entropy(self, probabilities: Any, xp: Arrays = NUMPY) -> Any:
        """Entropy of each label, in nats."""
        raise self._no_information("entropy")

    def favourite_votes(
        self, votes: Any, num_samples: Any, xp: Arrays = NUMPY
    ) -> Any:
        """Number of samples that vote for the favourite class."""
        raise self._no_information("votes")

    # By NumPy, of samples.

    def read_samples(self, samples: Array) -> Array:
        """Checks samples; returns them with their logits resolved."""
        return samples

    def count_votes(self, samples: Array) -> npt.NDArray[Any] | None:
        """Number of samples that vote for each class, if there are classes."""
        return None

    # By NumPy, of a prediction.

    def check(self, p: "Predictive") -> None:
        """Raises if the mean cannot be of this head."""

    def normal_quantile(
        self, p: "Predictive", levels: Float64Array
    ) -> Float64Array | None:
        """Quantiles of a prediction by moments, if they are defined."""
        return None

    def interval(
        self, p: "Predictive", tails: Sequence[float]
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Lower and upper ends, the quantiles at two levels."""
        if p.samples is not None:
            lower, upper = p.quantile(tails)
            return lower, upper
        stored = [stored_quantile(p, q) for q in tails]
        if stored[0] is not None and stored[1] is not None:
            return stored[0], stored[1]
        return self.normal_interval(p, tails[1])

    def normal_interval(
        self, p: "Predictive", upper_level: float
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Ends of the central interval of a normal distribution."""
        raise NotImplementedError

    def observation_quantile(self, p: "Predictive", q: float) -> Array:
        """Quantile of an observation, for outputs that are numbers."""
        raise NotImplementedError

    def log_likelihood(self, p: "Predictive", y: npt.ArrayLike) -> Float64Array:
        """Log of the predictive density of `y`, in nats per row."""
        raise NotImplementedError

    def label_log_likelihood(
        self, mean: Array, y: npt.ArrayLike
    ) -> Float64Array:
        """Log of the mean probability of the labels `y`, in nats per row."""
        raise self._no_information("label_log_likelihood")

    def distribution(self, p: "Predictive", tfd: Any) -> Any:
        """The predictive as a distribution of TensorFlow Probability."""
        raise NotImplementedError

    def _no_information(self, name: str) -> BayesdropError:
        task = self.head.task
        return BayesdropError(
            f"`{name}` is not defined for task={task!r}. Expected a "
            "prediction of probabilities: task='classification' or 'binary'. "
            f"Received: task={task!r}. Use `epistemic`, `aleatoric` and "
            "`total` instead."
        )

    def need_information(self, name: str) -> None:
        """Raises if the head has no entropies and votes."""
        if not self.has_information:
            raise self._no_information(name)


def need_samples(p: "Predictive", name: str) -> Array:
    """Returns the samples, or raises: `name` cannot be computed without."""
    if p.samples is None:
        raise MissingSamplesError(
            f"Cannot compute `{name}`. Expected the single samples. "
            "Received: samples=None. Use predict_with_uncertainty(..., "
            "return_samples=True)."
        )
    return p.samples


def stored_quantile(p: "Predictive", q: float) -> Array | None:
    """The quantile kept for level `q`, if it was asked for."""
    if p.quantile_levels is None or p.quantile_values is None:
        return None
    # (1 - 0.9) / 2 is not the float 0.05: levels match up to rounding.
    for level, values in zip(p.quantile_levels, p.quantile_values, strict=True):
        if math.isclose(level, q, rel_tol=0, abs_tol=1e-9):
            return np.asarray(values)
    return None


def normal_ends(
    mean: Array, variance: Array, upper_level: float
) -> tuple[Float64Array, Float64Array]:
    """Ends of a central normal interval, `mean -+ z * sqrt(variance)`."""
    reach = normal_reach(variance, upper_level)
    return mean - reach, mean + reach


def normal_reach(variance: Array, level: float) -> Float64Array:
    """Distance of a normal quantile from the mean, `z * sqrt(variance)`."""
    z = NormalDist().inv_cdf(level)
    return np.asarray(z * np.sqrt(variance, dtype=np.float64))


def normal_quantiles(
    mean: Array, std: Array, levels: Float64Array
) -> Float64Array:
    """Quantiles of normal distributions, `[levels, rows, outputs]`."""
    normal = NormalDist()
    reach = np.array(
        [
            math.copysign(math.inf, q - 0.5)
            if q in (0.0, 1.0)
            else normal.inv_cdf(q)
            for q in levels.reshape(-1)
        ]
    ).reshape(levels.shape + (1,) * mean.ndim)
    wide = std.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(mean + np.where(wide > 0, reach * wide, 0.0))
