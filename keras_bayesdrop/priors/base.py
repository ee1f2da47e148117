# SPDX-License-Identifier: Apache-2.0
"""What the priors of a scale have in common.

A group of weights shares a scale `tau`, which has a prior of its own:

    w ~ N(0, sigma0^2 * tau^2),    tau ~ p(tau)

Where a density is highest depends on the variable that it is taken over. Over
`tau^k` it is that over `log(tau)` divided by `tau^k`, up to a factor.
"""

import abc
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice

# Exponent k of the variable that a density is taken over: tau^k, or log(tau).
VARIABLES = {"variance": 2, "scale": 1, "log_scale": 0}


class ScalePrior(abc.ABC):
    """A prior of the scale `tau` that a group of weights shares.

    Functions take and return the variance factor `tau^2`, whatever `variable`
    is: that only says which density is evaluated and maximised.

    Priors are compared by value, and may be shared by regularizers and layers.

    Args:
        variable: `"variance"`, `"scale"` or `"log_scale"`: whether the density
            is one over `tau^2`, `tau` or `log(tau)`.
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
            Tensor of the shape of `moments`, in float32 or better, with a
            gradient that is finite also where `moments` is 0.
        """

    @abc.abstractmethod
    def score(self, variance: Any) -> Any:
        """Returns the derivative of `log_prob` by `log(tau)`.

        It falls with `tau`, or is constant: `log_prob` is concave in
        `log(tau)`.
        """

    @property
    @abc.abstractmethod
    def score_limits(self) -> tuple[float, float]:
        """The limits of `score` as the variance goes to 0, and to infinity."""

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ScalePrior":
        """Returns the prior that `get_config` described."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the same class, with the same arguments."""
        if not isinstance(other, ScalePrior):
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


def as_float(values: Any) -> Any:
    """Returns a tensor of float32, or of float64 if that is what it was."""
    tensor = keras.ops.convert_to_tensor(values)
    dtype = keras.backend.result_type(tensor.dtype, "float32")
    return keras.ops.cast(tensor, dtype)
