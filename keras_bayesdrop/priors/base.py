# SPDX-License-Identifier: Apache-2.0
"""The base classes of the priors: of single weights, and of shared scales."""

import abc
from typing import Any
from typing import ClassVar
from typing import TypeVar

from keras_bayesdrop._core.validate import check_choice

_P = TypeVar("_P", bound="Prior")

# Exponent k of the variable that a density is taken over: tau^k, or log(tau).
VARIABLES = {"variance": 2, "scale": 1, "log_scale": 0}


class Prior(abc.ABC):
    """A prior that is compared, hashed and saved by its arguments."""

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""

    @classmethod
    def from_config(cls: type[_P], config: dict[str, Any]) -> _P:
        """Returns the prior that `get_config` described."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        """Returns whether the class and the arguments are the same."""
        if not isinstance(other, Prior):
            return NotImplemented
        same_class = type(other) is type(self)
        return same_class and other.get_config() == self.get_config()

    def __hash__(self) -> int:
        """Returns the same number for equal priors."""
        return hash((type(self), *sorted(self.get_config().items())))

    def __repr__(self) -> str:
        """Returns the call that makes the prior."""
        arguments = ", ".join(
            f"{name}={value!r}" for name, value in self.get_config().items()
        )
        return f"{type(self).__name__}({arguments})"


class WeightPrior(Prior):
    """A prior of single weights, for layers with a Gaussian posterior.

    A layer with Gaussian weights, `q = N(mean, sigma^2)`, adds the sum over
    its weights of

        kl(mean, log sigma^2) = E_q[log q(w) - log p(w)]

    to its loss. To write a prior of your own, implement `kl` and
    `get_config`, and register the class with
    `keras.saving.register_keras_serializable`.

    Two priors are equal if their classes and configs are equal.

    Attributes:
        improper: Whether the prior has no finite integral, so that the
            posterior is not a probability distribution.
        warning: Text of the `BayesdropWarning` that a layer with this prior
            gives once, or `None`.
    """

    improper: ClassVar[bool] = False
    warning: ClassVar[str | None] = None

    @abc.abstractmethod
    def kl(self, mean: Any, log_variance: Any) -> Any:
        """Returns the KL divergence of a Gaussian from this prior, in nats.

        Args:
            mean: Floating tensor of posterior means.
            log_variance: Tensor of the same shape: the natural logarithms of
                the posterior variances.

        Returns:
            A tensor of the same shape, one value per weight, in float32; in
            float64 if an argument is in float64.
        """


class ScalePrior(Prior):
    """A prior of the scale `tau` that a group of weights shares.

        w ~ N(0, sigma0^2 * tau^2),    tau ~ p(tau)

    The mode of a density depends on the variable that the density is taken
    over. Up to a factor, the density over `tau^k` is the density over
    `log(tau)` divided by `tau^k`. The argument `variable` chooses the density
    that is evaluated and maximised. All methods take and return the variance
    factor `tau^2`, for every `variable`.

    Two priors are equal if their classes and configs are equal. Regularizers
    and layers may share one.

    Args:
        variable: `"variance"`, `"scale"` or `"log_scale"`: the density is
            one over `tau^2`, `tau` or `log(tau)`.
    """

    def __init__(self, variable: str) -> None:
        self.variable = check_choice(variable, "variable", VARIABLES)

    @property
    def power(self) -> int:
        """The `k` of the variable `tau^k`, and 0 for `log(tau)`."""
        return VARIABLES[self.variable]

    @abc.abstractmethod
    def log_prob(self, variance: Any) -> Any:
        """Returns the log-density, over `variable`, at `tau^2 = variance`.

        Args:
            variance: Tensor of values of `tau^2`, 0 or more.

        Returns:
            Tensor of the same shape, in float32 or better.
        """

    @abc.abstractmethod
    def optimal_variance(self, moments: Any, count: int) -> Any:
        """Returns the `tau^2` that explains a group of weights best.

        It maximises, in closed form,

            -count * log(tau) - moments / (2 * tau^2) + log_prob(tau^2)

        Args:
            moments: Tensor, for each group the sum of the squares of its
                weights, or of their second moments, over `sigma0^2`.
            count: Positive int. Number of weights in each group.

        Returns:
            Tensor of the shape of `moments`, in float32 or better. Its
            gradient is finite, also where `moments` is 0.
        """

    @abc.abstractmethod
    def score(self, variance: Any) -> Any:
        """Returns the derivative of `log_prob` by `log(tau)`.

        The derivative never increases with `tau`: `log_prob` is concave in
        `log(tau)`.
        """

    @property
    @abc.abstractmethod
    def score_limits(self) -> tuple[float, float]:
        """The limits of `score` as the variance goes to 0 and to infinity."""
