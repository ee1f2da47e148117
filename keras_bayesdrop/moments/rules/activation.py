# SPDX-License-Identifier: Apache-2.0
"""Rules of activations: as layers, and inside other layers."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.moments import activations
from keras_bayesdrop.moments.fusing import fused
from keras_bayesdrop.moments.outcome import Factor
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule
from keras_bayesdrop.moments.rules.softmax import softmax_outcome

# Activations that never decrease.
INCREASING = frozenset(
    {
        keras.activations.relu,
        keras.activations.leaky_relu,
        keras.activations.sigmoid,
        keras.activations.tanh,
        keras.activations.elu,
        keras.activations.selu,
        keras.activations.softplus,
        keras.activations.softsign,
        keras.activations.exponential,
        keras.activations.hard_sigmoid,
        keras.activations.relu6,
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Activated(MeanVariance):
    """Moments of feature maps after an activation that never decreases.

    A later rule may replace the activation. TensorFlow then skips it.

    Attributes:
        activation: The rule of the activation.
        before: Moments before the activation.
    """

    activation: activations.Activation
    before: MeanVariance


def activate(function: Any, x: MeanVariance, name: str) -> Outcome:
    """Applies one of Keras' activation functions.

    Args:
        function: The function, or `None`.
        x: Moments of the input.
        name: Name of the layer, for messages.
    """
    if function is keras.activations.softmax:
        return softmax_outcome(x)
    known = activations.activation_of(function)
    if known is None:
        label = getattr(function, "__name__", repr(function))
        raise PlanError(
            f"The activation of layer `{name}` has no rule for moments. "
            "Expected a function of Keras with default settings. Received: "
            f"activation={label}"
        )
    return apply(known, x, function in INCREASING)


def apply(
    activation: activations.Activation,
    x: MeanVariance,
    increasing: bool = False,
) -> Outcome:
    """Applies the rule of an activation to each unit.

    Args:
        activation: The rule.
        x: Moments of the input.
        increasing: Whether the activation never decreases.
    """
    if activation is activations.linear:
        return Outcome(x, (Factor(tf.ones_like(x.mean)),), linear=True)
    if x.mean.shape.rank != 2:
        # Feature maps have no covariances, so no derivative is needed.
        moments = MeanVariance(
            *fused([lambda *x: activation(*x)[:2]], x.mean, x.spread())
        )
        if increasing:
            moments = Activated(
                moments.mean, moments.variance, activation=activation, before=x
            )
        return Outcome(moments)
    mean, variance, gain = activation(x.mean, x.spread())
    moments = MeanVariance(mean, variance)
    if activation is not activations.relu:
        return Outcome(moments, (Factor(gain),))

    def joint(before: tf.Tensor) -> tuple[MeanVariance, tf.Tensor]:
        return moments, activations.relu_covariance(x.mean, before)

    return Outcome(moments, (Factor(gain),), joint)


@register_rule(keras.layers.Activation)
def activation(
    layer: keras.layers.Activation, inputs: Sequence[MeanVariance]
) -> Outcome:
    """Any activation function with a rule."""
    return activate(layer.activation, inputs[0], layer.name)


@register_rule(keras.layers.ReLU)
def relu(layer: keras.layers.ReLU, inputs: Sequence[MeanVariance]) -> Outcome:
    """max(x, 0) or max(x, slope * x); other settings by quadrature."""
    slope = float(layer.negative_slope or 0.0)
    rule = activations.leaky_relu(slope) if slope else activations.relu
    if layer.max_value is not None or layer.threshold:
        rule = activations.quadrature(layer.call)
    return apply(rule, inputs[0], increasing=True)


@register_rule(keras.layers.LeakyReLU)
def leaky_relu(
    layer: keras.layers.LeakyReLU, inputs: Sequence[MeanVariance]
) -> Outcome:
    """max(x, slope * x)."""
    rule = activations.leaky_relu(float(layer.negative_slope))
    return apply(rule, inputs[0], increasing=True)


@register_rule(keras.layers.ELU)
def elu(layer: keras.layers.ELU, inputs: Sequence[MeanVariance]) -> Outcome:
    """The exponential linear unit, by quadrature."""
    rule = activations.quadrature(layer.call)
    return apply(rule, inputs[0], increasing=layer.alpha >= 0)
