# SPDX-License-Identifier: Apache-2.0
"""Noise of training: outputs of a layer with Gaussian weights, drawn.

All estimators give each output its mean and variance. They differ in which
outputs are independent of each other, and in the variance of gradients.
"""

import abc
import math
from collections.abc import Callable
from numbers import Real
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.layers._gaussian.weights import GaussianWeights
from keras_bayesdrop.layers._operations import KernelOperation
from keras_bayesdrop.layers._random import draw_normal
from keras_bayesdrop.layers._random import draw_signs
from keras_bayesdrop.random.philox import words_to_normal

ESTIMATORS = ("flipout", "local")
# Least variance of an output: the gradient of its root must be finite.
_VARIANCE_FLOOR = 1e-16


class Estimator(abc.ABC):
    """Draws the outputs of a layer in training.

    Attributes:
        name: Name in a layer's config.
    """

    name: ClassVar[str]

    @abc.abstractmethod
    def draw(
        self,
        operation: KernelOperation,
        weights: GaussianWeights,
        x: Any,
        seed: Any,
    ) -> Any:
        """Draws outputs, the activation included.

        Args:
            operation: The layer.
            weights: Distribution of its kernel.
            x: Inputs [batch, ...].
            seed: The `keras.random.SeedGenerator` to draw from.

        Returns:
            Outputs [batch, ...] in the compute dtype.
        """


class Local(Estimator):
    """Local reparametrisation: draws every output by itself.

        y ~ N(linear(x, theta), linear(x^2, sigma^2))

    Args:
        threshold: Float or `None`. Means count as zero while log alpha of
            their weight is above it.
    """

    name = "local"

    def __init__(self, threshold: float | None = None) -> None:
        real = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if threshold is not None and not (real and math.isfinite(threshold)):
            expected = "a finite float or `None`"
            raise invalid("train_threshold", threshold, expected)
        self.threshold = None if threshold is None else float(threshold)

    def draw(
        self,
        operation: KernelOperation,
        weights: GaussianWeights,
        x: Any,
        seed: Any,
    ) -> Any:
        """Draws outputs from their distribution given the inputs."""
        return _draw_outputs(
            operation,
            weights,
            weights.means_below(self.threshold),
            x,
            lambda mean: draw_normal(tf.shape(mean), operation.wide, seed),
        )


class RowFactors(Estimator):
    """One factor for each input unit of an example, at all positions.

    y = linear(x * (1 + sqrt(alpha) * e), theta)
    """

    name = "row_factors"

    def draw(
        self,
        operation: KernelOperation,
        weights: GaussianWeights,
        x: Any,
        seed: Any,
    ) -> Any:
        """Calls the layer with noise on its inputs."""
        shape = [1] * len(x.shape)
        shape[operation.input_axis] = weights.kernel.shape[-2]
        scale = weights.relative_stddev()
        if len(scale.shape):
            scale = keras.ops.reshape(scale, shape)
        sizes = [keras.ops.shape(x)[0], *shape[1:]]
        factors = 1.0 + scale * draw_normal(sizes, operation.wide, seed)
        noisy = keras.ops.cast(x, operation.wide) * factors
        return operation.apply(noisy, weights.mean())


class Flipout(Estimator):
    """One draw for the batch, with random signs for each example.

        y[n] = linear(x[n], theta) + r[n] * linear(x[n] * s[n], sigma * e)

    There is one sign `s` for each input unit and one sign `r` for each output
    unit, the same at all positions: each example has one draw of the weights.
    """

    name = "flipout"

    def draw(
        self,
        operation: KernelOperation,
        weights: GaussianWeights,
        x: Any,
        seed: Any,
    ) -> Any:
        """Calls the layer with its mean, and adds the signed deviations."""
        cast, wide, narrow = keras.ops.cast, operation.wide, operation.dtype
        theta = weights.mean()
        mean = operation.linear(cast(x, narrow), cast(theta, narrow))
        mean = cast(mean, wide)
        normal = draw_normal(theta.shape, wide, seed)
        deviation = keras.ops.sqrt(weights.variance()) * normal
        signs = draw_signs(_one_per_unit(operation, x), wide, seed)
        noise = operation.linear(cast(x, wide) * signs, deviation)
        noise = noise * draw_signs(_one_per_unit(operation, mean), wide, seed)
        return operation.finish(cast(mean + noise, narrow))


def get_estimator(estimator: Any) -> Estimator:
    """Returns the estimator of a name in `ESTIMATORS`."""
    check_choice(estimator, "estimator", ESTIMATORS)
    return Flipout() if estimator == Flipout.name else Local()


def estimator_for(parametrization: str, threshold: float | None) -> Estimator:
    """Returns the estimator of a parametrisation.

    Args:
        parametrization: Of the weights.
        threshold: As in `Local`; `None` for correlated weights, since a
            correlated weight without its mean has no noise and no way back.
    """
    if parametrization != "correlated":
        return Local(threshold)
    if threshold is not None:
        expected = "`None` with parametrization='correlated'"
        raise invalid("train_threshold", threshold, expected)
    return RowFactors()


def draw_rows(
    operation: KernelOperation, weights: GaussianWeights, x: Any, words: Any
) -> Any:
    """Draws the outputs of a dense layer for every row and sample.

    Args:
        operation: The layer.
        weights: Distribution of its kernel.
        x: Inputs [rows, samples or 1, units].
        words: uint32 tensor [rows, samples, outputs]; of correlated weights
            [rows, samples, units].

    Returns:
        Outputs [rows, samples, outputs].
    """
    draw = words_to_normal(words, operation.wide)
    theta = weights.mean()
    if not weights.correlated:
        return _draw_outputs(operation, weights, theta, x, lambda mean: draw)
    scale = weights.relative_stddev()
    if len(scale.shape):
        scale = scale[:, 0]
    noisy = keras.ops.cast(x, operation.wide) * (1.0 + scale * draw)
    return operation.apply(noisy, theta)


def _draw_outputs(
    operation: KernelOperation,
    weights: GaussianWeights,
    means: Any,
    x: Any,
    draw: Callable[[Any], Any],
) -> Any:
    """Draws every output by itself from its distribution given the inputs.

    Args:
        operation: The layer.
        weights: Distribution of its kernel.
        means: Means of the weights.
        x: Inputs.
        draw: Maps mean outputs to standard normal draws, of their shape or of
            a shape that they broadcast to.

    Returns:
        Outputs, the activation included.
    """
    cast, wide, narrow = keras.ops.cast, operation.wide, operation.dtype
    mean = operation.linear(cast(x, narrow), cast(means, narrow))
    squares = keras.ops.square(cast(x, wide))
    variance = operation.linear(squares, weights.variance())
    sigma = keras.ops.sqrt(keras.ops.maximum(variance, _VARIANCE_FLOOR))
    outputs = cast(mean, wide) + sigma * draw(mean)
    return operation.finish(cast(outputs, narrow))


def _one_per_unit(operation: KernelOperation, x: Any) -> list[Any]:
    """Returns the shape of `x`, with 1 for all positions."""
    shape = [1] * len(x.shape)
    shape[operation.input_axis] = x.shape[operation.input_axis]
    return [keras.ops.shape(x)[0], *shape[1:]]
