# SPDX-License-Identifier: Apache-2.0
"""Changes the observation noise of a prediction."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import cast

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.heads import Regression

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class Noise:
    """The noise of a `Predictive`, which holds the fields."""

    head: Head

    def with_noise(
        self, *, noise_precision: float | Sequence[float] | None
    ) -> "Predictive":
        """Returns the same regression with another observation noise.

            y ~ N(y[t], 1 / noise_precision)

        Args:
            noise_precision: As in `Regression`: a positive float, one for each
                entry of the last axis, or `None` for noise that is not known.

        Example:
        ```python
        tau = keras_bayesdrop.calibrate.noise_precision(y, p)
        p = p.with_noise(noise_precision=tau)
        p.log_likelihood(y), p.interval(0.9)
        ```
        """
        if not isinstance(self.head, Regression):
            raise BayesdropError(
                "The noise of this prediction is no precision. Expected a "
                f"prediction with head='regression'. Received: head={self.head}"
            )
        head = Regression(noise_precision=noise_precision)
        return dataclasses.replace(cast("Predictive", self), head=head)

    def without_noise(self) -> "Predictive":
        """Returns the prediction of the function, not of an observation.

        A regression without noise; other heads have no noise of their own.
        """
        return dataclasses.replace(
            cast("Predictive", self),
            head=self.head.without_noise(),
            noise_variance=None,
            noise_samples=None,
        )
