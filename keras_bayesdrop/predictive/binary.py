# SPDX-License-Identifier: Apache-2.0
"""Quantities of binary labels, with one probability each."""

from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.predictive.classes import ProbabilityQuantities
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.quantities import NUMPY
from keras_bayesdrop.predictive.quantities import Arrays
from keras_bayesdrop.predictive.quantities import bernoulli_entropy
from keras_bayesdrop.predictive.quantities import unit_interval

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class BinaryQuantities(ProbabilityQuantities):
    """Quantities of labels 0 and 1, where each output is `p(y = 1)`."""

    def entropy(self, probabilities: Any, xp: Arrays = NUMPY) -> Any:
        """Bernoulli entropy of each probability, in nats."""
        return bernoulli_entropy(probabilities, xp)

    def favourite_votes(
        self, votes: Any, num_samples: Any, xp: Arrays = NUMPY
    ) -> Any:
        """Number of samples that vote with the majority."""
        return xp.maximum(votes, num_samples - votes)

    def resolve_logits(self, logits: Array) -> Array:
        """Sigmoid of each element, one sample after the other."""
        probabilities = np.empty_like(logits)
        for sample, result in zip(logits, probabilities, strict=True):
            # exp(-|x|) does not overflow.
            power = np.exp(-np.abs(sample.astype(np.float64)))
            result[...] = np.where(sample >= 0, 1.0, power) / (1.0 + power)
        return probabilities

    def count_votes(self, samples: Array) -> npt.NDArray[Any]:
        """Number of samples in which the probability is at least 0.5."""
        return np.asarray(np.sum(samples >= 0.5, axis=0))

    def label_probabilities(
        self, mean: Array, y: npt.ArrayLike
    ) -> Float64Array:
        """Mean probability of the label that was observed."""
        p = unit_interval(mean)
        return np.asarray(np.where(binary_labels(p, y), p, 1.0 - p))

    def distribution(self, p: "Predictive", tfd: Any) -> Any:
        """The Bernoulli distribution of each label."""
        return tfd.Bernoulli(probs=p.mean)
