# SPDX-License-Identifier: Apache-2.0
"""The choices of a prediction by samples."""

import dataclasses
from typing import TYPE_CHECKING
from typing import ClassVar

from keras_bayesdrop._core.choice import DEFAULT_DRAWS
from keras_bayesdrop._core.choice import DRAWS
from keras_bayesdrop._core.choice import ENGINES
from keras_bayesdrop._core.choice import MASKS
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_not_negative
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Method
from keras_bayesdrop.prediction.methods.base import Run

if TYPE_CHECKING:
    from keras_bayesdrop.noise.draws import MaskRule
    from keras_bayesdrop.prediction.sampling.tolerance import Tolerance

# The square of a smaller one is zero in float64.
_SMALLEST_TOLERANCE = 1e-150


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampled(Method):
    """Base of methods that draw samples.

    Args:
        masks: `"shared"` or `"independent"`.
        draws: `"balanced"` or `"independent"`.
        tolerance: Relative Monte Carlo error at which rows stop.
        absolute_tolerance: Absolute Monte Carlo error at which rows stop.
        engine: `"auto"`, `"fused"` or `"reference"`.
    """

    masks: str = "shared"
    draws: str = DEFAULT_DRAWS
    tolerance: float | None = None
    absolute_tolerance: float | None = None
    engine: str = "auto"

    def __post_init__(self) -> None:
        """Checks the choices."""
        check_choice(self.masks, "masks", MASKS)
        check_choice(self.draws, "draws", DRAWS)
        check_choice(self.engine, "engine", ENGINES)
        for name in ("tolerance", "absolute_tolerance"):
            value = getattr(self, name)
            if value is not None:
                value = check_not_negative(value, name)
                object.__setattr__(self, name, value)
        if 0 < (self.tolerance or 0.0) < _SMALLEST_TOLERANCE:
            raise invalid(
                "tolerance",
                self.tolerance,
                f"0, `None`, or a float of at least {_SMALLEST_TOLERANCE:g}: "
                "a row takes up to 1 / tolerance**2 samples",
            )

    @property
    def shared(self) -> bool:
        """True if all rows of a sample share one mask."""
        return self.masks == "shared"

    @property
    def mask_rule(self) -> "MaskRule":
        """Which masks are related to each other."""
        from keras_bayesdrop.noise.draws import MaskRule

        return MaskRule(self.shared, self.draws == "balanced")

    @property
    def stops_early(self) -> bool:
        """True if rows stop when their Monte Carlo error is small enough."""
        return bool(self.tolerance or self.absolute_tolerance)

    def stopping_rule(self) -> "Tolerance | None":
        """Returns the rule by which rows stop; `None` if all take `T`."""
        from keras_bayesdrop.prediction.sampling.tolerance import Tolerance

        if not self.stops_early:
            return None
        return Tolerance(self.tolerance or 0.0, self.absolute_tolerance or 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling(Sampled):
    """Predicts by samples: one forward pass for each dropout mask.

        y[t] = f(x; mask[t]),    mean = sum{ y[t] : t } / T

    Args:
        masks: `"shared"`: sample `t` is one mask for all rows, so it is one
            function of `x`. `"independent"`: a fresh mask per row, as in
            training. Every single row has the same distribution in both.
        draws: `"balanced"`, the default: every unit is dropped in its share of
            each 16 samples, up to one, in an order of its own. Each sample by
            itself is distributed as before, and the mean of several has a
            smaller error: that of two to five times as many independent
            samples where one or two layers are noisy. With fewer than 32
            samples the variance is up to 1/15 too large. `"independent"`:
            samples do not know of each other.
        tolerance: Float. Draws samples in blocks of 16, and after each block
            goes on only with the rows that still have an output (a class) with

                mc_error > max(absolute_tolerance, tolerance * sqrt(total))

            `total` is the variance of an observation, noise included, so a
            row takes `T = epistemic / total / tolerance**2` samples, and
            fewer where balanced draws show that their error is smaller: few
            where the noise is larger than what the model does not know. For
            a regression use `head=Regression(noise_precision=...)`, or a
            model that predicts its noise; without either the noise counts as
            zero, and every row takes up to `1 / tolerance**2` samples. They are
            the first ones of a prediction with fixed `T`; `num_samples` is
            the most that a row takes, and `num_samples_used` of the result
            tells what each row took. 0 or `None` disables the relative
            criterion.
        absolute_tolerance: Float, in units of the output (for classes, of
            the probability). Used alone or together with `tolerance`; the
            larger of the two bounds applies. 0 or `None` disables it.
        engine: `"auto"`, `"fused"` (compiled ops) or `"reference"` (pure
            TensorFlow).

    Example:
    ```python
    method = keras_bayesdrop.Sampling(masks="independent", tolerance=0.05)
    p = keras_bayesdrop.predict_with_uncertainty(model, x, 500, method=method)
    ```
    """

    has_samples: ClassVar[bool] = True

    def start(self, job: Job) -> Run:
        """Starts a prediction."""
        from keras_bayesdrop.prediction.sampling.run import SamplingRun

        return SamplingRun(job, self)
