# SPDX-License-Identifier: Apache-2.0
"""Rules of layers that move entries without changing them."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments.outcome import Factor
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule


@register_rule(
    keras.layers.Flatten,
    keras.layers.Reshape,
    keras.layers.Permute,
    keras.layers.RepeatVector,
    keras.layers.Cropping1D,
    keras.layers.Cropping2D,
    keras.layers.Cropping3D,
    keras.layers.ZeroPadding1D,
    keras.layers.ZeroPadding2D,
    keras.layers.ZeroPadding3D,
    keras.layers.UpSampling1D,
)
def move(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """Moves variances like means. Padding is certain."""
    (x,) = inputs
    mean = tf.convert_to_tensor(layer.call(x.mean))
    variance = None
    if x.variance is not None:
        variance = tf.convert_to_tensor(layer.call(x.variance))
    same = x.mean.shape.rank == 2 and isinstance(layer, keras.layers.Flatten)
    jacobians = (Factor(tf.ones_like(mean[:1])),) if same else ()
    return Outcome(MeanVariance(mean, variance), jacobians, linear=True)


@register_rule(
    keras.layers.InputLayer,
    keras.layers.Identity,
    keras.layers.ActivityRegularization,
)
def identity(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """Returns the moments unchanged."""
    (x,) = inputs
    return Outcome(x, (Factor(tf.ones_like(x.mean[:1])),), linear=True)
