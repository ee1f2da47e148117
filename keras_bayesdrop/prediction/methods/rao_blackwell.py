# SPDX-License-Identifier: Apache-2.0
"""The choices of a prediction that samples all noise but the last site."""

import dataclasses

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.moments import COVARIANCES
from keras_bayesdrop.prediction.methods.sampling import Sampled

FALLBACKS = ("sampling",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaoBlackwell(Sampled):
    """Samples all noise but the last site, and integrates that one.

    Mean `m[t]` and variance `v[t]` of the last site, and of what follows, are
    known in closed form given each sample:

        mean = E m[t],    variance = E v[t] + Var m[t]

    The cost is that of sampling, the Monte Carlo error smaller (`mc_error`;
    `stats.variance_reduction` says by how much). Unbiased if what follows is
    one linear layer, or several with `covariance="full"`; through an
    activation such as softmax it uses the rules of `Moments`, which are
    approximate there. If the model has a single site, nothing is left to
    sample, and the result is that of `Moments`.

    Args:
        covariance: As in `Moments`. By default `"full"` if no layer behind
            the last site has more than 64 units, else `"diagonal"`.
        fallback: `"sampling"` samples up to a layer without a rule, as in
            `Moments`. By default such a layer is an error.
        masks: As in `Sampling`.
        draws: As in `Sampling`.
        tolerance: As in `Sampling`.
        absolute_tolerance: As in `Sampling`.
        engine: As in `Sampling`; runs the sampled part.

    Example:
    ```python
    method = keras_bayesdrop.RaoBlackwell(covariance="full")
    p = keras_bayesdrop.predict_with_uncertainty(model, x, method=method)
    p.stats.variance_reduction
    ```
    """

    covariance: str | None = None
    fallback: str | None = None

    def __post_init__(self) -> None:
        """Checks the choices."""
        super().__post_init__()
        if self.covariance is not None:
            check_choice(self.covariance, "covariance", COVARIANCES)
        if self.fallback is not None:
            check_choice(self.fallback, "fallback", FALLBACKS)

    def start(self, job: Job) -> Run:
        """Starts a prediction."""
        from keras_bayesdrop.prediction.closed_form.start import (
            start_rao_blackwell,
        )

        return start_rao_blackwell(job, self)
