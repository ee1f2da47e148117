# SPDX-License-Identifier: Apache-2.0
"""The stopping rule of adaptive sampling, and the rows that go on.

A row is done when, for each of its outputs,

    mc_error <= max(absolute, relative * sqrt(total))

with `total` the variance of an observation, from the samples and the noise.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bayesdrop.prediction.sampling.accumulate import Moments
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantities import Summary
from keras_bayesdrop.predictive.quantities import mc_error
from keras_bayesdrop.predictive.select import quantities_of
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK

# A gap of up to this many finished rows does not start another call: their
# samples are drawn again. A call costs about as much in the smallest networks,
# and less in others.
_GAP = 8


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
        moments: Moments,
        num_samples: int,
        head: Head,
    ) -> Any:
        """Returns, per row, whether no output needs more samples.

        A row with NaN or infinity is done: more samples would not help.

        Args:
            moments: Moments of the samples so far.
            num_samples: Number of samples so far.
            head: Head of the output.

        Returns:
            Bool array [rows].
        """
        mean, variance = moments.mean, moments.variance
        sampled = moments.sampled_variance
        whole = sampled is None
        std = np.sqrt(variance if whole else sampled, dtype=np.float64)
        summary = Summary(mean, variance, num_samples, whole, sampled)
        with np.errstate(invalid="ignore"):  # infinite means
            total = variance + quantities_of(head).aleatoric(summary)
        allowed = np.maximum(self.absolute, self.relative * np.sqrt(total))
        met = (mc_error(std, num_samples) <= allowed) | ~np.isfinite(mean)
        return np.all(met.reshape(len(met), -1), axis=1)


def checkpoints(num_samples: int, adaptive: bool) -> Iterator[int]:
    """Yields the numbers of samples after which rows may stop."""
    if adaptive:
        yield from range(SAMPLES_PER_BLOCK, num_samples, SAMPLES_PER_BLOCK)
    yield num_samples


def spans(rows: Any) -> list[tuple[int, int]]:
    """Returns a few ranges that cover rising row numbers.

    Noise is drawn for a range of rows at once, not for scattered rows.
    """
    breaks = np.flatnonzero(np.diff(rows) > _GAP + 1) + 1
    return [
        (int(part[0]), int(part[-1]) + 1) for part in np.split(rows, breaks)
    ]
