# SPDX-License-Identifier: Apache-2.0
"""The choices of a prediction by moments, without samples."""

import dataclasses
from typing import Any

from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Method
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.sampling import Sampling

COVARIANCES = ("diagonal", "full")


def fallback_of(value: Any) -> Sampling | None:
    """Returns how layers without a rule are sampled, if they are."""
    if value is None:
        return None
    return get_choice(value, "fallback", (Sampling,))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moments(Method):
    """Takes mean and variance through the network in one pass.

    A rule for each layer (see `keras_bayesdrop.moments`) maps the mean and
    variance of its inputs to those of its outputs. Exact for linear networks;
    in others, units before an activation count as normal.

    Args:
        covariance: `"diagonal"` treats units as independent, then corrects
            the output variances for shared noise; it costs two to four
            forward passes. `"full"` carries the covariances between units of
            dense layers.
        fallback: `"sampling"`, or a `Sampling` object, samples everything up
            to a layer that has no rule, and goes on in closed form for each
            of `num_samples` samples. By default such a layer is an error.
            `stats.engine` tells what was sampled.

    Example:
    ```python
    method = keras_bayesdrop.Moments(covariance="full")
    p = keras_bayesdrop.predict_with_uncertainty(model, x, method=method)
    ```
    """

    covariance: str = "diagonal"
    fallback: str | Sampling | None = None

    def __post_init__(self) -> None:
        """Checks the choices."""
        check_choice(self.covariance, "covariance", COVARIANCES)
        if self.fallback is not None and not isinstance(self.fallback, str):
            object.__setattr__(self, "fallback", fallback_of(self.fallback))
        fallback_of(self.fallback)

    def start(self, job: Job) -> Run:
        """Starts a prediction."""
        from keras_bayesdrop.prediction.closed_form.start import start_moments

        return start_moments(job, self, fallback_of(self.fallback))
