# SPDX-License-Identifier: Apache-2.0
"""Adam as Keras has it, for tensors that are not variables."""

import tensorflow as tf

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7


def adam(
    weights: list[tf.Tensor],
    means: list[tf.Tensor],
    squares: list[tf.Tensor],
    gradients: list[tf.Tensor],
    step: tf.Tensor,
    learning_rate: tf.Tensor,
) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
    """Returns weights and running moments after an update.

    Args:
        weights: The weights.
        means: Running means of the gradients, zeros to begin with.
        squares: Running means of their squares, zeros to begin with.
        gradients: The gradients.
        step: Scalar int32, number of the update, 1 for the first.
        learning_rate: Scalar.
    """
    count = tf.cast(step, tf.float32)
    rate = (
        learning_rate
        * tf.sqrt(1 - tf.pow(_BETA_2, count))
        / (1 - tf.pow(_BETA_1, count))
    )
    means = [
        mean + (gradient - mean) * (1 - _BETA_1)
        for mean, gradient in zip(means, gradients, strict=True)
    ]
    squares = [
        square + (tf.square(gradient) - square) * (1 - _BETA_2)
        for square, gradient in zip(squares, gradients, strict=True)
    ]
    weights = [
        weight - rate * mean / (tf.sqrt(square) + _EPSILON)
        for weight, mean, square in zip(weights, means, squares, strict=True)
    ]
    return weights, means, squares
