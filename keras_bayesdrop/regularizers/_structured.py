# SPDX-License-Identifier: Apache-2.0
"""The base class of penalties with scales of groups of weights.

The weights of a kernel have a Gaussian prior whose scales have a prior too.
Training maximises both: at each step the scales are at their optimum for the
weights of that step, and only the weights have a gradient.
"""

import math
from typing import Any
from typing import ClassVar

import keras

from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses.likelihood import OLD_KEYWORDS
from keras_bayesdrop.losses.likelihood import get_likelihood
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.priors import structured_scales
from keras_bayesdrop.priors.structures import check_structure

# Its square, divided by that of a large `sigma0`, is positive in float32.
_SMALLEST_EPSILON = 1e-12


class StructuredPenalty(keras.regularizers.Regularizer):
    """Minus the log-density of weights and their best scales.

        nats = sum{ 1/2 * log(2 pi V) + (W^2 + epsilon^2) / (2 V) }
               - log p(scales),    V = sigma0^2 * scales^2
        penalty = c / (N * D) * nats

    The arguments are those of the subclasses.
    """

    structure: ClassVar[str]

    @refuse_old_keywords(OLD_KEYWORDS)
    def __init__(
        self,
        row_prior: Any,
        matrix_prior: Any,
        axis: int | None,
        num_train_examples: int,
        sigma0: float,
        epsilon: float,
        likelihood: Any,
    ) -> None:
        self.row_prior, self.matrix_prior = check_structure(
            self.structure, row_prior, matrix_prior
        )
        self.num_train_examples = check_positive_int(
            num_train_examples, "num_train_examples"
        )
        self.sigma0 = check_positive(sigma0, "sigma0")
        if axis is not None or self.row_prior is not None:
            axis = check_int(axis, "axis")
        self.axis = axis
        self.epsilon = check_epsilon(epsilon)
        self.likelihood = get_likelihood(likelihood)

    def __call__(self, x: Any) -> Any:
        """Returns the penalty for the weights `x`, in float32 or better."""
        moments = self._moments(x)
        scales = self._scales(moments)
        variance = scales.variance  # [rows, 1], or a scalar
        constant = math.log(2.0 * math.pi) + 2.0 * math.log(self.sigma0)
        terms = constant + keras.ops.log(variance) + moments / variance
        nats = 0.5 * keras.ops.sum(terms)
        nats = nats - scales.log_prob(self.row_prior, self.matrix_prior)
        return self.likelihood.loss_per_nat(self.num_train_examples) * nats

    def scales(self, kernel: Any) -> GroupScales:
        """Returns the best scales for a kernel, as NumPy arrays.

        A scale is the prior standard deviation of the weights of a group in
        units of `sigma0`. A scale that is much smaller than the others marks
        an input unit, or a layer, that the model does not need.

        Args:
            kernel: Array, tensor or variable of weights.

        Returns:
            A named tuple of `rows`, of shape `[rows]`, and `matrix`, a
            scalar; `None` for a scale that the prior does not have.
        """
        scales = self._scales(self._moments(kernel))
        return GroupScales(
            *(
                None if part is None else keras.ops.convert_to_numpy(part)
                for part in scales
            )
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            "num_train_examples": self.num_train_examples,
            "sigma0": self.sigma0,
            "epsilon": self.epsilon,
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
        }

    def _scales(self, moments: Any) -> GroupScales:
        return structured_scales(
            self.structure, moments, self.row_prior, self.matrix_prior
        )

    def _moments(self, kernel: Any) -> Any:
        """Returns the second moments over sigma0^2, [rows, columns]."""
        kernel = keras.ops.convert_to_tensor(kernel)
        dtype = keras.backend.result_type(kernel.dtype, "float32")
        kernel = keras.ops.cast(kernel, dtype) / self.sigma0
        moments = keras.ops.square(kernel) + (self.epsilon / self.sigma0) ** 2
        if self.axis is None:
            return keras.ops.reshape(moments, (1, -1))
        rank = len(moments.shape)
        if rank < 2 or not -rank <= self.axis < rank:
            raise BayesdropError(
                f"The weights have no rows for `{type(self).__name__}`. "
                "Expected a kernel of rank 2 or more, with input units on "
                f"axis {self.axis}. Received: weights of shape "
                f"{tuple(moments.shape)}"
            )
        moments = keras.ops.moveaxis(moments, self.axis, 0)
        return keras.ops.reshape(moments, (moments.shape[0], -1))


def check_epsilon(epsilon: Any) -> float:
    """Returns `epsilon` as a float if its square is positive in float32."""
    value = check_positive(epsilon, "epsilon")
    if value < _SMALLEST_EPSILON:
        raise invalid("epsilon", epsilon, f"at least {_SMALLEST_EPSILON}")
    return value
