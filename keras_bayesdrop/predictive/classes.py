# SPDX-License-Identifier: Apache-2.0
"""Quantities of probabilities, and of one probability per class."""

from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive.base import Quantities
from keras_bayesdrop.predictive.base import normal_ends
from keras_bayesdrop.predictive.heads import Binary
from keras_bayesdrop.predictive.heads import Classification
from keras_bayesdrop.predictive.heads import NoisyLogits
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.labels import sum_per_row
from keras_bayesdrop.predictive.quantities import NUMPY
from keras_bayesdrop.predictive.quantities import Arrays
from keras_bayesdrop.predictive.quantities import Summary
from keras_bayesdrop.predictive.quantities import class_entropy
from keras_bayesdrop.predictive.quantities import label_variance
from keras_bayesdrop.predictive.quantities import unit_interval

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive

# Probabilities may leave [0, 1] by the rounding of a float16 softmax.
_PROBABILITY_SLACK = 2e-3
# The sum of many rounded probabilities may be off by more.
_SUM_SLACK = 1e-2


class ProbabilityQuantities(Quantities):
    """Quantities that labels share, of two classes or of many."""

    has_information: ClassVar[bool] = True

    head: Classification | NoisyLogits | Binary

    def aleatoric(self, summary: Summary, xp: Arrays = NUMPY) -> Any:
        """Mean variance of a label, a zero or one per class."""
        return label_variance(summary, xp)

    def read_samples(self, samples: Array) -> Array:
        """Makes probabilities of logits, or checks that they are some."""
        if getattr(self.head, "from_logits", False):
            return self.resolve_logits(samples)
        for sample in samples:
            self.check_sample(sample)
        return samples

    def resolve_logits(self, logits: Array) -> Array:
        """Applies the softmax or sigmoid that an output lacks."""
        raise NotImplementedError

    def check_sample(self, sample: Array) -> None:
        """Raises unless a sample holds probabilities."""
        self.check_values(sample, "samples")

    def check(self, p: "Predictive") -> None:
        """Raises unless the mean holds probabilities."""
        self.check_values(p.mean, "mean")

    def check_values(self, values: Array, name: str) -> None:
        """Raises unless all values are probabilities, up to rounding."""
        slack = _PROBABILITY_SLACK
        if not np.all((values >= -slack) & (values <= 1 + slack)):
            raise BayesdropError(
                f"Invalid value for argument `{name}`. Expected probabilities "
                f"in [0, 1] for head={self.head.task!r}. Received: values "
                f"from {values.min()} to {values.max()}"
            )

    def normal_interval(
        self, p: "Predictive", upper_level: float
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Ends of the normal interval of a probability, within [0, 1]."""
        lower, upper = normal_ends(p.mean, p.variance, upper_level)
        return np.clip(lower, 0, 1), np.clip(upper, 0, 1)

    def log_likelihood(self, p: "Predictive", y: npt.ArrayLike) -> Float64Array:
        """Log of the mean probability of the labels, summed per row."""
        return self.label_log_likelihood(p.mean, y)

    def label_log_likelihood(
        self, mean: Array, y: npt.ArrayLike
    ) -> Float64Array:
        """The same, of probabilities from anywhere."""
        chosen = self.label_probabilities(mean, y)
        with np.errstate(divide="ignore"):
            logs = np.log(chosen)
        return sum_per_row(logs)

    def label_probabilities(
        self, mean: Array, y: npt.ArrayLike
    ) -> Float64Array:
        """Mean probability of the label that was observed, one per label."""
        raise NotImplementedError


class ClassQuantities(ProbabilityQuantities):
    """Quantities of one probability per class, on the last axis."""

    class_axes: ClassVar[int] = 1

    def entropy(self, probabilities: Any, xp: Arrays = NUMPY) -> Any:
        """Entropy over the last axis, in nats."""
        return class_entropy(probabilities, xp)

    def favourite_votes(
        self, votes: Any, num_samples: Any, xp: Arrays = NUMPY
    ) -> Any:
        """Number of samples that vote for the favourite class."""
        return xp.max(votes)

    def resolve_logits(self, logits: Array) -> Array:
        """Softmax over the last axis, one sample after the other."""
        probabilities = np.empty_like(logits)
        for sample, result in zip(logits, probabilities, strict=True):
            wide = sample.astype(np.float64)
            powers = np.exp(wide - wide.max(axis=-1, keepdims=True))
            result[:] = powers / powers.sum(axis=-1, keepdims=True)
        return probabilities

    def check_sample(self, sample: Array) -> None:
        """Raises unless a sample has probabilities that add up to 1."""
        super().check_sample(sample)
        sums = sample.sum(axis=-1, dtype=np.float64)
        if not np.all(np.abs(sums - 1) <= _SUM_SLACK):
            raise BayesdropError(
                "Invalid value for argument `samples`. Expected probabilities "
                "that add up to 1 over the last axis. Received: sums from "
                f"{sums.min()} to {sums.max()}. Use head=Classification("
                "from_logits=True) for logits."
            )

    def count_votes(self, samples: Array) -> npt.NDArray[Any]:
        """Number of samples in which each class is the likeliest."""
        classes = samples.shape[-1]
        votes = np.argmax(samples, axis=-1).reshape(len(samples), -1)
        cells = votes + classes * np.arange(votes.shape[1])  # [T, labels]
        counts = np.bincount(cells.ravel(), minlength=classes * votes.shape[1])
        return counts.reshape(samples.shape[1:])

    def label_probabilities(
        self, mean: Array, y: npt.ArrayLike
    ) -> Float64Array:
        """Mean probability of the class that was observed."""
        p = unit_interval(mean)
        labels = class_labels(p, y)
        return np.take_along_axis(p, labels[..., None], axis=-1)[..., 0]

    def distribution(self, p: "Predictive", tfd: Any) -> Any:
        """The categorical distribution of the label."""
        return tfd.Categorical(probs=p.mean)


class NoisyLogitQuantities(ClassQuantities):
    """Quantities of the classes of noisy logits."""

    head: NoisyLogits

    def read_samples(self, samples: Array) -> Array:
        """Raises: the noise of logits is drawn where a model predicts."""
        raise BayesdropError(
            "Samples of noisy logits cannot be read. Expected samples of "
            "probabilities, with head='classification'. Received: "
            f"head={self.head!r}"
        )
