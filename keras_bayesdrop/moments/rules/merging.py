# SPDX-License-Identifier: Apache-2.0
"""Rules of layers with several inputs."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments.outcome import Factor
from keras_bayesdrop.moments.outcome import Matrix
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule


@register_rule(keras.layers.Add)
def add(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """A sum. Without covariances, treats its terms as independent."""
    return _combine(inputs, [1.0] * len(inputs))


@register_rule(keras.layers.Subtract)
def subtract(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """A difference."""
    return _combine(inputs, [1.0, -1.0])


@register_rule(keras.layers.Average)
def average(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """A mean of inputs."""
    return _combine(inputs, [1.0 / len(inputs)] * len(inputs))


def _combine(
    inputs: Sequence[MeanVariance], factors: Sequence[float]
) -> Outcome:
    mean = tf.add_n([f * x.mean for f, x in zip(factors, inputs, strict=True)])
    variance = None
    if not all(x.certain for x in inputs):
        variance = tf.add_n(
            [f**2 * x.spread() for f, x in zip(factors, inputs, strict=True)]
        )
    jacobians = tuple(Factor(f * tf.ones_like(mean[:1])) for f in factors)
    return Outcome(MeanVariance(mean, variance), jacobians, linear=True)


@register_rule(keras.layers.Concatenate)
def concatenate(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """A concatenation."""
    mean = tf.concat([x.mean for x in inputs], layer.axis)
    variance = None
    if not all(x.certain for x in inputs):
        variance = tf.concat([x.spread() for x in inputs], layer.axis)
    jacobians: tuple[Matrix, ...] = ()
    if mean.shape.rank == 2:
        widths = [x.mean.shape[1] for x in inputs]
        eye = tf.eye(sum(widths), dtype=mean.dtype)
        jacobians = tuple(
            Matrix(part) for part in tf.split(eye, widths, axis=0)
        )
    return Outcome(MeanVariance(mean, variance), jacobians, linear=True)
