# SPDX-License-Identifier: Apache-2.0
"""The stopping rule of adaptive sampling.

A row is done when, for each of its outputs,

    mc_error <= max(absolute, relative * sqrt(total))

with `total` the variance of an observation, from the samples and the noise.
"""

import dataclasses
import math
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop._core.warn import warn_user
from keras_bayesdrop.prediction.sampling.accumulate import SampleMoments
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.heads import Regression
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


def warn_if_not_adaptive(
    rule: Tolerance, heads: Sequence[Head], balanced: bool
) -> None:
    """Warns of a relative tolerance that is the same for every row.

    Args:
        rule: The stopping rule.
        heads: Heads of the outputs.
        balanced: Whether the draws are balanced. The means of their blocks
            decide in part, but the rule does not know the noise of a row.
    """
    if rule.absolute or not any(
        isinstance(head, Regression) and head.noise_precision is None
        for head in heads
    ):
        return
    every = f"1 / tolerance**2 = {math.ceil(1 / rule.relative**2):.7g}"
    takes = f"as many samples for every row: {every},"
    if balanced:
        takes = f"up to about {every} samples for every row,"
    warn_user(
        "A relative `tolerance` of a regression without a noise precision "
        f"takes {takes} or `num_samples` if that is less. Pass "
        "head=Regression(noise_precision=...), or an "
        "`absolute_tolerance` in units of the output."
    )


def checkpoints(num_samples: int, adaptive: bool) -> Iterator[int]:
    """Yields the numbers of samples after which rows may stop."""
    if adaptive:
        yield from range(SAMPLES_PER_BLOCK, num_samples, SAMPLES_PER_BLOCK)
    yield num_samples
