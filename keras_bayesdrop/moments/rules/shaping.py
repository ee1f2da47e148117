# SPDX-License-Identifier: Apache-2.0
"""Layers that move entries, and change none."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments.moments import Factor
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome
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
def moves(layer: Any, inputs: Sequence[Moments]) -> Outcome:
    """Moves the variances as it moves the means. Padding is certain."""
    (x,) = inputs
    mean = tf.convert_to_tensor(layer.call(x.mean))
    variance = None
    if x.variance is not None:
        variance = tf.convert_to_tensor(layer.call(x.variance))
    same = x.mean.shape.rank == 2 and isinstance(layer, keras.layers.Flatten)
    jacobians = (Factor(tf.ones_like(mean[:1])),) if same else ()
    return Outcome(Moments(mean, variance), jacobians, linear=True)


@register_rule(
    keras.layers.InputLayer,
    keras.layers.Identity,
    keras.layers.ActivityRegularization,
)
def nothing(layer: Any, inputs: Sequence[Moments]) -> Outcome:
    """Hands everything on."""
    (x,) = inputs
    return Outcome(x, (Factor(tf.ones_like(x.mean[:1])),), linear=True)
