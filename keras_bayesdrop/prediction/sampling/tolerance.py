# SPDX-License-Identifier: Apache-2.0
"""The stopping rule of adaptive sampling.

A row is done when, for each of its outputs,

    mc_error <= max(absolute, relative * sqrt(total))

with `total` the variance of an observation, from the samples and the noise.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bayesdrop.prediction.sampling.accumulate import SampleMoments
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantities import Summary
from keras_bayesdrop.predictive.quantities import mc_error
from keras_bayesdrop.predictive.select import quantities_of
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The Monte Carlo error that a caller accepts.

    Attributes:
        relative: In standard deviations of an observation.
        absolute: In units of the output; for classes, a probability.
    """

    relative: float
    absolute: float

    def met(
        self,
        moments: SampleMoments,
        num_samples: int,
        head: Head,
    ) -> Any:
        """Returns, per row, whether no output needs more samples.

        A row with NaN or infinity is done: more samples would not help.

        Args:
            moments: SampleMoments of the samples so far.
            num_samples: Number of samples so far.
            head: Head of the output.

        Returns:
            Bool array [rows].
        """
        mean, variance = moments.mean, moments.variance
        sampled = moments.sampled_variance
        whole = sampled is None
        std = np.sqrt(variance if whole else sampled, dtype=np.float64)
        summary = Summary(
            mean,
            variance,
            num_samples,
            whole,
            sampled,
            moments.noise_variance,
            moments.mean_variance,
        )
        with np.errstate(invalid="ignore"):  # infinite means
            total = variance + quantities_of(head).aleatoric(summary)
            error = mc_error(std, num_samples, moments.mean_variance)
        allowed = np.maximum(self.absolute, self.relative * np.sqrt(total))
        met = (error <= allowed) | ~np.isfinite(mean)
        return np.all(met.reshape(len(met), -1), axis=1)


def checkpoints(num_samples: int, adaptive: bool) -> Iterator[int]:
    """Yields the numbers of samples after which rows may stop."""
    if adaptive:
        yield from range(SAMPLES_PER_BLOCK, num_samples, SAMPLES_PER_BLOCK)
    yield num_samples
