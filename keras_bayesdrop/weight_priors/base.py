# SPDX-License-Identifier: Apache-2.0
"""What every prior of a single weight has in common."""

import abc
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

# Logarithms of standard deviations beyond these are taken as these: nothing
# larger, nor its inverse, is a number of the dtype.
_LARGEST_LOG_STDDEV = {"float32": 87.0, "float64": 700.0}
# Squares of anything larger would overflow.
LARGEST_RATIO = {"float32": 1e18, "float64": 1e150}


class WeightPrior(abc.ABC):
    """A prior of single weights, as a Gaussian posterior sees it.

    A layer with Gaussian weights, `q = N(mean, sigma^2)`, adds the sum over
    its weights of

        kl(mean, log sigma^2) = E_q[log q(w) - log p(w)]

    to its loss. To make a prior of your own, write `kl` and `get_config`, and
    register the class with `keras.saving.register_keras_serializable`.

    Two priors are equal if their classes and configs are.

    Attributes:
        improper: Whether the prior has no finite integral, so that the
            posterior is not a probability distribution.
        warning: What a layer should tell its user once about this prior, as a
            `BayesdropWarning`; `None` if there is nothing to tell.
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
            A tensor of the same shape, one value a weight, in float32; in
            float64 if an argument is.
        """

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WeightPrior":
        """Returns the prior that `get_config` described."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a prior of the same class and config."""
        if not isinstance(other, WeightPrior):
            return NotImplemented
        return type(self) is type(other) and (
            self.get_config() == other.get_config()
        )

    def __hash__(self) -> int:
        """A hash of the class and the config."""
        return hash((type(self), *sorted(self.get_config().items())))

    def __repr__(self) -> str:
        """The call that makes this prior."""
        arguments = ", ".join(
            f"{k}={v!r}" for k, v in self.get_config().items()
        )
        return f"{type(self).__name__}({arguments})"


def widened(*tensors: Any) -> list[Any]:
    """Returns the tensors in one shape and dtype.

    The dtype is float32, or float64 if one of them has it. The shape is that
    to which all broadcast: gradients written by hand rely on it.
    """
    tensors = tuple(keras.ops.convert_to_tensor(each) for each in tensors)
    dtype = keras.backend.result_type(*map(dtype_of, tensors), "float32")
    wide = [keras.ops.cast(each, dtype) for each in tensors]
    if len({tuple(each.shape) for each in wide}) > 1:
        zeros = sum(keras.ops.zeros_like(each) for each in wide)
        wide = [each + zeros for each in wide]
    return wide


def exp_log_stddev(log_stddev: Any) -> Any:
    """Returns `exp(log_stddev)`, never zero and never infinite."""
    largest = _LARGEST_LOG_STDDEV[dtype_of(log_stddev)]
    return keras.ops.exp(keras.ops.clip(log_stddev, -largest, largest))


@tf.custom_gradient
def ratio_to_stddev(mean: Any, log_variance: Any) -> Any:
    """Returns mean / sigma; no square of either is taken on the way.

    Nor is one on the way back: by `log_variance` the derivative is minus half
    the ratio itself.
    """
    largest = LARGEST_RATIO[dtype_of(mean)]

    def gradient(upstream: Any) -> tuple[Any, Any]:
        ratio = ratio_to_stddev(mean, log_variance)
        inverse = keras.ops.where(
            keras.ops.abs(ratio) < largest,
            exp_log_stddev(-0.5 * log_variance),
            0.0,
        )
        return upstream * inverse, -0.5 * upstream * ratio

    ratio = mean * exp_log_stddev(-0.5 * log_variance)
    return keras.ops.clip(ratio, -largest, largest), gradient


def dtype_of(tensor: Any) -> str:
    """Returns the dtype of a tensor by its name."""
    return str(keras.backend.standardize_dtype(tensor.dtype))
